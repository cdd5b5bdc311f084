// Callers without a valid key: without any, with one that is mistyped, and with one that nobody has; from several addresses,
// one of which floods. Each address has a minute of its own, and so has each IPv6 network.

import { newSecret } from "../../../src/keys/secret.ts";
import { REQUESTS_PER_MINUTE } from "../../../src/rate-limit/anonymous.ts";
import type { Answer, Outgoing } from "./connections.ts";
import { Ledger } from "./ledger.ts";
import type { Problems } from "./problems.ts";

/** Those who call from one of these are one client. */
const NETWORKS = [
  ["198.51.100.1"],
  // Four addresses with few requests for each that has some more.
  ...Array.from({ length: 24 }, (_, number) => [`203.0.113.${number}`]),
  ["2001:db8::1", "2001:db8::2", "2001:DB8:0:0:ffff::3"],
  ["2001:db8:0:1::1", "2001:db8:0:1::2"],
];

/** One request in so many comes from the address that floods. */
const FLOOD_SHARE = 4;

/** So few that the service has seen all of them soon. */
const UNKNOWN_KEYS = 200;

const PATHS = ["/v1/pets", "/v1/pets/1", "/v1/usage", "/v1/nowhere"];

export class Strangers {
  readonly #problems: Problems;
  readonly #ledgers = NETWORKS.map(() => new Ledger({ minute: REQUESTS_PER_MINUTE }));
  readonly #unknownKeys = Array.from({ length: UNKNOWN_KEYS }, newSecret);
  #sent = 0;

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  /** A request, and what has to be told of its answer. */
  next(): { asked: Outgoing; enter(answer: Answer): void } {
    const turn = this.#sent;
    this.#sent += 1;
    const network = turn % FLOOD_SHARE === 0 ? 0 : 1 + (turn % (NETWORKS.length - 1));
    const [addresses = [], ledger] = [NETWORKS[network], this.#ledgers[network]];
    const address = addresses[turn % addresses.length] ?? "";
    const headers = { "CF-Connecting-IP": address, ...this.#credentials(turn) };
    const asked = { method: "GET", path: PATHS[(turn >> 2) % PATHS.length] ?? "/", headers };
    const enter = (answer: Answer) => {
      const outcome = ledger?.enter(answer);
      const isRight = outcome === "refused" || answer.status === 401;
      this.#problems.expect(
        isRight,
        "a stranger was served",
        `${asked.path}: ${answer.status} ${answer.body}`,
      );
    };
    return { asked, enter };
  }

  check(): void {
    for (const [index, ledger] of this.#ledgers.entries())
      ledger.check(`address ${NETWORKS[index]}`, this.#problems);
  }

  get figures(): { admitted: number; refused: number } {
    const sum = (of: (ledger: Ledger) => number) =>
      this.#ledgers.reduce((total, each) => total + of(each), 0);
    return { admitted: sum(({ admitted }) => admitted), refused: sum(({ refused }) => refused) };
  }

  #credentials(turn: number): Record<string, string> {
    const kind = turn % 3;
    if (kind === 0) return {};
    const key = kind === 1 ? "pet_mistyped" : this.#unknownKeys[turn % UNKNOWN_KEYS];
    return { Authorization: `Bearer ${key}` };
  }
}
