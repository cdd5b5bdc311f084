// Clients without a valid key (missing, malformed or unknown), from several addresses, one of which floods. Each IPv4 address and
// each IPv6 network has limits of its own.

import { newSecret } from "../../../src/keys/secret.ts";
import { REQUESTS_PER_MINUTE } from "../../../src/rate-limit/anonymous.ts";
import type { Answer, Outgoing } from "./connections.ts";
import type { Problems } from "./problems.ts";
import { WindowRecords } from "./window-records.ts";

/** The addresses in one row count as one client. */
const NETWORKS = [
  ["198.51.100.1"],
  // Addresses with few requests each.
  ...Array.from({ length: 24 }, (_, number) => [`203.0.113.${number}`]),
  ["2001:db8::1", "2001:db8::2", "2001:DB8:0:0:ffff::3"],
  ["2001:db8:0:1::1", "2001:db8:0:1::2"],
];

/** One in this many requests comes from the address that floods. */
const FLOOD_SHARE = 4;

/** Few, so that the service caches all of them. */
const UNKNOWN_KEYS = 200;

const PATHS = ["/v1/pets", "/v1/pets/1", "/v1/usage", "/v1/nowhere"];

export class AnonymousClients {
  readonly #problems: Problems;
  readonly #records = NETWORKS.map(() => new WindowRecords({ minute: REQUESTS_PER_MINUTE }));
  readonly #unknownKeys = Array.from({ length: UNKNOWN_KEYS }, newSecret);
  #sent = 0;

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  /** A request, and a function that records its response. */
  next(): { planned: Outgoing; record(answer: Answer): void } {
    const turn = this.#sent;
    this.#sent += 1;
    const network = turn % FLOOD_SHARE === 0 ? 0 : 1 + (turn % (NETWORKS.length - 1));
    const [addresses = [], records] = [NETWORKS[network], this.#records[network]];
    const address = addresses[turn % addresses.length] ?? "";
    const headers = { "CF-Connecting-IP": address, ...this.#credentials(turn) };
    const planned = { method: "GET", path: PATHS[(turn >> 2) % PATHS.length] ?? "/", headers };
    const record = (answer: Answer) => {
      const outcome = records?.record(answer);
      const isRight = outcome === "refused" || answer.status === 401;
      this.#problems.expect(
        isRight,
        "a client without a valid key was served",
        `${planned.path}: ${answer.status} ${answer.body}`,
      );
    };
    return { planned, record };
  }

  check(): void {
    for (const [index, records] of this.#records.entries())
      records.check(`address ${NETWORKS[index]}`, this.#problems);
  }

  get figures(): { admitted: number; refused: number } {
    const sum = (of: (records: WindowRecords) => number) =>
      this.#records.reduce((total, each) => total + of(each), 0);
    return { admitted: sum(({ admitted }) => admitted), refused: sum(({ refused }) => refused) };
  }

  #credentials(turn: number): Record<string, string> {
    const kind = turn % 3;
    if (kind === 0) return {};
    const key = kind === 1 ? "pet_mistyped" : this.#unknownKeys[turn % UNKNOWN_KEYS];
    return { Authorization: `Bearer ${key}` };
  }
}
