// Parses the body of a request `times` times, with the code of the service, or with `?by=JSON.parse` only by that, from text that is
// already decoded. Responds with the outcome: `accepted` or the error message.

import { parseBody } from "../../src/http/body.ts";
import { NewPet } from "../../src/pets/schema.ts";

export default {
  async fetch(request) {
    const { searchParams } = new URL(request.url);
    const bytes = new Uint8Array(await request.arrayBuffer());
    const text = new TextDecoder().decode(bytes);
    const parse =
      searchParams.get("by") === "JSON.parse" ? () => JSON.parse(text) : () => parseBody(NewPet, bytes);
    let outcome = "";
    for (let time = 0; time < Number(searchParams.get("times")); time += 1) {
      try {
        parse();
        outcome = "accepted";
      } catch (error) {
        outcome = `${error instanceof Error ? error.message : error}`;
      }
    }
    return new Response(outcome);
  },
} satisfies ExportedHandler;
