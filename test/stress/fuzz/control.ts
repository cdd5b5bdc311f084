// A Worker that accepts every request. Responses that it gets too come from the HTTP server, not from the service.

export default {
  async fetch(request: Request): Promise<Response> {
    await request.text().catch(() => {});
    return new Response("reached");
  },
};
