// What the bench's two commands share.

/** Runs a command. If it fails, prints the error and exits with code 1. */
export async function runCommand(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${name} failed: ${error instanceof Error ? error.message : error}\n`);
    process.exit(1);
  }
}

/** The value of an option that is a positive integer. */
export function positiveInteger(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,3}$/.test(text)) throw new Error(`--${option} must be 1 to 9999, got ${text}`);
  return Number(text);
}
