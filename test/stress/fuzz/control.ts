// A Worker that returns the method and URL of each request. It shows which responses come from the HTTP server, and which
// method and path the server reads from malformed bytes.

export default {
  async fetch(request: Request): Promise<Response> {
    await request.text().catch(() => {});
    const headers = { "Seen-Method": request.method, "Seen-Url": encodeURIComponent(request.url) };
    return new Response("reached", { headers });
  },
};
