// The seed of all that tests draw by chance: data, lives of the simulation, and the order of tests. `npm test` always has the same one, so
// its verdict depends on the code alone. TEST_SEED=n gives it another one; npm run proof draws one, and prints it.

export const SEED = Number(process.env.TEST_SEED ?? 1);
