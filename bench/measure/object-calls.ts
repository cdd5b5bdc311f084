// Runs code around each call of an object, in the Worker that calls.

/** The same objects. A call of any of their methods runs `around`, which makes the call and returns its result. */
export function interceptCalls(
  objects: DurableObjectNamespace,
  around: (id: DurableObjectId, call: () => Promise<unknown>) => Promise<unknown>,
): DurableObjectNamespace {
  const intercepted = (stub: DurableObjectStub) =>
    new Proxy(stub, {
      get(_stub, name) {
        const member: unknown = Reflect.get(stub, name);
        if (typeof member !== "function") return member;
        return (...words: unknown[]) => around(stub.id, async () => Reflect.apply(member, stub, words));
      },
    });
  return {
    idFromName: (name: string) => objects.idFromName(name),
    get: (id: DurableObjectId) => intercepted(objects.get(id)),
    getByName: (name: string) => intercepted(objects.getByName(name)),
  } as DurableObjectNamespace;
}
