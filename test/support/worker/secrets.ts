// What must never be in a log: the secrets that were issued, and whatever looks like one.

const issuedSecrets = new Set<string>();

/** Has every line searched for a secret from now on, and for its random part alone. */
export function issueSecret(secret: string): void {
  issuedSecrets.add(secret.slice(4, 36));
}

/** Whether a line holds what looks like a key, one that was issued, or a header that has one. */
export function hasSecret(line: string): boolean {
  if (/pet_[0-9A-Za-z]{30,}|bearer|authorization/i.test(line)) return true;
  for (const secret of issuedSecrets) if (line.includes(secret)) return true;
  return false;
}
