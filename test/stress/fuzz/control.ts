// A Worker that reads what it is sent and does nothing but tell what it saw. It shows which answers are the server's, and
// for bytes that may be anything, which method and path a Worker takes them for.

export default {
  async fetch(request: Request): Promise<Response> {
    await request.text().catch(() => {});
    const headers = { "Seen-Method": request.method, "Seen-Url": encodeURIComponent(request.url) };
    return new Response("reached", { headers });
  },
};
