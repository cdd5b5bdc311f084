// How the stand-in for Cloudflare's API refuses: with a status, and a code of Cloudflare's, which is what the commands go by.

export class Refusal extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
