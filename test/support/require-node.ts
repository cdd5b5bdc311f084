// Ends the test runner with one line on a Node that is too old for wrangler, as by `npx vitest` after `npm ci`. Imported first.

if (!process.features.typescript) {
  process.stderr.write(
    `error: Node ${process.version} is too old: npm test, or node scripts/run.mjs vitest, uses a newer one\n`,
  );
  process.exit(1);
}
