// A program of each operation in each of three languages, which the document has as `x-codeSamples`. Viewers show the source as it
// is, and the reference page with the reader's address and key. A test runs each of them.

import { HEADER } from "../http/header-names.ts";
import type { OperationId } from "../http/operations.ts";
import { REMOVED_AT } from "../pets/deprecation.ts";
import { PLACEHOLDERS } from "../site/reference/sample.ts";
import { isoDate } from "./examples.ts";

const { origin, key } = PLACEHOLDERS;

const DEPRECATED = `Deprecated: it answers 410 from ${isoDate(REMOVED_AT)} on. List pets instead.`;

const PET = `"name": "Zoë", "categoryId": 9223372036854775807, "status": "available"`;

const CLIENT = `import { Petstore } from "petstore-client";

const petstore = new Petstore({ apiKey: "${key}", baseURL: "${origin}" });`;

export interface Sample {
  lang: string;
  label: string;
  source: string;
}

/** The guide has it too. */
export const LIST_WITH_CLIENT = `${CLIENT}
for await (const pet of petstore.pets.list()) {
  console.log(pet.id, pet.name);
}`;

export const SAMPLES = {
  listPets: codeSamples(
    `# If there are more pets, the Link header has the URL of the next page.
curl -i "${origin}/v1/pets?limit=100" -H "Authorization: Bearer ${key}"`,

    LIST_WITH_CLIENT,

    `import requests
from requests.adapters import HTTPAdapter

url = "${origin}/v1/pets?limit=100"
with requests.Session() as session:
    session.headers["Authorization"] = "Bearer ${key}"
    session.mount("${origin}", HTTPAdapter(max_retries=3))  # waits for ${HEADER.retryAfter} on 429 and 503
    while url:
        response = session.get(url, timeout=10)
        response.raise_for_status()
        for pet in response.json():
            print(pet["id"], pet["name"])
        url = response.links.get("next", {}).get("url")`,
  ),

  createPet: codeSamples(
    `# Retries with the same ${HEADER.idempotencyKey} are safe. Each pet needs its own.
curl -i "${origin}/v1/pets" -H "Authorization: Bearer ${key}" \\
  -H "Content-Type: application/json" -H "${HEADER.idempotencyKey}: order-4711" \\
  -d '{${PET}}'`,

    `${CLIENT}
// The client retries with the same ${HEADER.idempotencyKey}, so the pet is added once.
const pet = await petstore.pets.create({
  name: "Zoë",
  categoryId: 9223372036854775807n,
  status: "available",
});
console.log(pet);`,

    `import uuid

import requests

headers = {
    "Authorization": "Bearer ${key}",
    "${HEADER.idempotencyKey}": str(uuid.uuid4()),  # retries with the same one are safe
}
pet = {${PET}}
response = requests.post("${origin}/v1/pets", json=pet, headers=headers, timeout=10)
response.raise_for_status()
print(response.json())`,
  ),

  getPet: codeSamples(
    `# ${DEPRECATED}
curl -i "${origin}/v1/pets/1" -H "Authorization: Bearer ${key}"`,

    `${CLIENT}
// ${DEPRECATED}
const pet = await petstore.pets.get(1n);
console.log(pet);`,

    `import requests

# ${DEPRECATED}
headers = {"Authorization": "Bearer ${key}"}
response = requests.get("${origin}/v1/pets/1", headers=headers, timeout=10)
response.raise_for_status()
print(response.json())`,
  ),

  getUsage: codeSamples(
    `curl -i "${origin}/v1/usage" -H "Authorization: Bearer ${key}"`,

    `${CLIENT}
const { plan, windows } = await petstore.usage();
for (const [name, { remaining }] of Object.entries(windows)) console.log(plan, name, remaining);`,

    `import requests

headers = {"Authorization": "Bearer ${key}"}
response = requests.get("${origin}/v1/usage", headers=headers, timeout=10)
response.raise_for_status()
usage = response.json()
for name, window in usage["windows"].items():
    print(usage["plan"], name, window["remaining"])`,
  ),
} satisfies Record<OperationId, Sample[]>;

function codeSamples(curl: string, typeScript: string, python: string): Sample[] {
  return [
    { lang: "Shell", label: "curl", source: curl },
    { lang: "TypeScript", label: "TypeScript", source: typeScript },
    { lang: "Python", label: "Python", source: python },
  ];
}
