// A Worker that reads what it is sent and does nothing. What is answered in its place was answered by the server.

export default {
  async fetch(request: Request): Promise<Response> {
    await request.text().catch(() => {});
    return new Response("reached");
  },
};
