// Parses the body of a request `times` times, with the code of the service. Responds with the outcome: `accepted` or the error message.

import { parseBody } from "../../src/http/body.ts";
import { NewPet } from "../../src/pets/schema.ts";

export default {
  async fetch(request) {
    const times = Number(new URL(request.url).searchParams.get("times"));
    const bytes = new Uint8Array(await request.arrayBuffer());
    let outcome = "";
    for (let time = 0; time < times; time += 1) {
      try {
        parseBody(NewPet, bytes);
        outcome = "accepted";
      } catch (error) {
        outcome = `${error instanceof Error ? error.message : error}`;
      }
    }
    return new Response(outcome);
  },
} satisfies ExportedHandler;
