// Hashes, as texts. The command line uses this too, and its Node has no Uint8Array.toHex yet.

/** The SHA-256 of a text's UTF-8, in hexadecimal. */
export async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
