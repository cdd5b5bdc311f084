// Finds secrets in log lines.

const trackedSecrets = new Set<string>();

/** From now on, `hasSecret` finds this secret, also by its random part alone. */
export function trackSecret(secret: string): void {
  trackedSecrets.add(secret.slice(4, 36));
}

/** Whether a line contains a tracked secret, text in the format of a key, or an Authorization header. */
export function hasSecret(line: string): boolean {
  if (/pet_[0-9A-Za-z]{30,}|bearer|authorization/i.test(line)) return true;
  for (const secret of trackedSecrets) if (line.includes(secret)) return true;
  return false;
}
