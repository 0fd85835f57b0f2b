// An OAuth 2.0 authorization server (oidc-provider) for tests on loopback.
//
// Clients request tokens by client credentials; their secret is `SECRET`. The part of a client's id before the first dash
// selects the behaviour: `brief` gets tokens that are valid for two seconds, `slow` gets its answers when the test releases
// them. The test uses `/control/*`: `count?client=ID` returns the number of the client's token requests, `release?client=ID`
// releases its answers, `active?token=T` returns whether a token is valid. Prints `READY <port>` and exits when stdin closes,
// with the test process. The first argument is the folder whose `node_modules` contain the package.

import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// Standard output has only the port.
for (const kind of ["log", "info", "warn"]) console[kind] = console.error;

const { default: Provider } = await import(
  pathToFileURL(join(process.argv[2], "node_modules/oidc-provider/lib/index.js"))
);

const SECRET = "client secret/7f3a+opens==";
const IDS = ["steady", "brief", "slow-shared", "slow-late", "refused", "stale", "wrong", "echo"];

const asked = new Map();
const released = new Map();
const gate = (client) => {
  if (!released.has(client)) {
    let open;
    const opened = new Promise((resolve) => (open = resolve));
    released.set(client, { opened, open });
  }
  return released.get(client);
};

let provider;
const control = async (url) => {
  const client = url.searchParams.get("client");
  switch (url.pathname) {
    case "/control/count":
      return asked.get(client) ?? 0;
    case "/control/release":
      gate(client).open();
      return true;
    case "/control/active":
      return Boolean((await provider.ClientCredentials.find(url.searchParams.get("token")))?.isValid);
  }
};

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname.startsWith("/control/")) {
    response.end(JSON.stringify(await control(url)));
    return;
  }
  const [, pair] = (request.headers.authorization ?? "").split("Basic ");
  const [id] = Buffer.from(pair ?? "", "base64").toString().split(":");
  asked.set(id, (asked.get(id) ?? 0) + 1);
  if (id.startsWith("slow")) await gate(id).opened;
  provider.callback()(request, response);
});

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: IDS.map((client_id) => ({
      client_id,
      client_secret: SECRET,
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
      scope: "work rest",
    })),
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
    scopes: ["work", "rest"],
    ttl: { ClientCredentials: (_context, _token, client) => (client.clientId.startsWith("brief") ? 2 : 600) },
  });
  process.stdout.write(`READY ${port}\n`);
});

process.stdin.on("close", () => process.exit()).resume();
