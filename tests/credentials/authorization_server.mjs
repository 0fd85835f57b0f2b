// An OAuth 2.0 authorization server (oidc-provider) for tests on loopback.
//
// Clients request tokens by client credentials; their secret is `SECRET`. The part of a client's id before the first dash
// selects the behaviour: `brief` gets tokens that are valid for two seconds, `slow` gets its answers when the test releases
// them. The test uses `/control/*`: `count?client=ID` returns the number of the client's token requests, `release?client=ID`
// releases its answers, `active?token=T` returns whether a token is valid. Prints `READY <port>` and exits when stdin closes,
// with the test process. The first argument is the folder whose `node_modules` contain the package.
//
// People sign in at the clients `person` and `person-brief` by device code or with a browser. `browse?url=U` is the browser of
// a person who consents to everything: it returns the address at which it ends. `refreshes?client=ID` returns the number of
// refreshes that a client requested. The client `signed` signs assertions with the key of `/control/key`.

import { generateKeyPairSync } from "node:crypto";
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

const PEOPLE = ["person", "person-brief"];
const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

const refreshed = new Map();
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
    case "/control/active": {
      const token = url.searchParams.get("token");
      const found = (await provider.ClientCredentials.find(token)) ?? (await provider.AccessToken.find(token));
      return Boolean(found?.isValid);
    }
    case "/control/refreshes":
      return refreshed.get(client) ?? 0;
    case "/control/key":
      return privateKey.export({ type: "pkcs8", format: "pem" });
    case "/control/browse":
      return await browse(url.searchParams.get("url"));
  }
};

/** Follows redirects and submits forms, as a person who consents, until the browser leaves this server or a page has no form. */
async function browse(start) {
  const cookies = new Map();
  let request = { url: new URL(start) };
  for (let step = 0; step < 20; step += 1) {
    const headers = { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") };
    const response = await fetch(request.url, { method: request.form ? "POST" : "GET", body: request.form, headers, redirect: "manual" });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      if (value) cookies.set(name, value);
      else cookies.delete(name);
    }
    const location = response.headers.get("location");
    if (location) {
      const next = new URL(location, request.url);
      if (next.origin !== new URL(start).origin) return next.href;
      request = { url: next };
      continue;
    }
    const page = await response.text();
    const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
    if (!action) return request.url.href;
    const form = new URLSearchParams();
    for (const [input] of page.matchAll(/<input[^>]*>/g)) {
      const name = /name="([^"]*)"/.exec(input)?.[1];
      if (name) form.set(name, /value="([^"]*)"/.exec(input)?.[1] ?? "");
    }
    const code = request.url.searchParams.get("user_code");
    if (code && !form.get("user_code")) form.set("user_code", code);
    if (page.includes('name="confirm"') || /confirm/i.test(page)) form.set("confirm", "yes");
    request = { url: new URL(action.replaceAll("&amp;", "&"), request.url), form };
  }
  return "it does not end";
}

/** Signs the person in and consents to the requested scopes. */
async function consent(request, response) {
  const { params } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: "anna", clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "");
  const result = { login: { accountId: "anna" }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname.startsWith("/control/")) {
    const answer = await control(url);
    response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
    return;
  }
  if (url.pathname.startsWith("/interaction/")) return await consent(request, response);
  const [, pair] = (request.headers.authorization ?? "").split("Basic ");
  const [id] = Buffer.from(pair ?? "", "base64").toString().split(":");
  asked.set(id, (asked.get(id) ?? 0) + 1);
  if (id.startsWith("slow")) await gate(id).opened;
  provider.callback()(request, response);
});

// A token for a resource is a JSON Web Token.
const resourceIndicators = {
  enabled: true,
  defaultResource: () => undefined,
  getResourceServerInfo: (_context, audience) => ({ scope: "work rest", audience, accessTokenFormat: "jwt" }),
};

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [
      ...IDS.map((client_id) => ({
        client_id,
        client_secret: SECRET,
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        scope: "work rest",
      })),
      ...PEOPLE.map((client_id) => ({
        client_id,
        token_endpoint_auth_method: "none",
        application_type: "native",
        grant_types: ["authorization_code", "refresh_token", DEVICE_CODE],
        redirect_uris: ["http://127.0.0.1/callback"],
        response_types: ["code"],
        scope: "openid offline_access",
      })),
      {
        client_id: "signed",
        token_endpoint_auth_method: "private_key_jwt",
        jwks: { keys: [publicKey.export({ format: "jwk" })] },
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        scope: "work",
      },
    ],
    features: { clientCredentials: { enabled: true }, deviceFlow: { enabled: true }, devInteractions: { enabled: false }, resourceIndicators },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    scopes: ["work", "rest", "openid", "offline_access"],
    ttl: {
      AccessToken: (_context, _token, client) => (client.clientId === "person-brief" ? 2 : 600),
      ClientCredentials: (_context, _token, client) => (client.clientId.startsWith("brief") ? 2 : 600),
    },
  });
  for (const event of ["grant.success", "grant.error"]) {
    provider.on(event, ({ oidc }) => {
      const { client_id: client, grant_type: grant } = oidc.params ?? {};
      if (grant === "refresh_token") refreshed.set(client, (refreshed.get(client) ?? 0) + 1);
    });
  }
  process.stdout.write(`READY ${port}\n`);
});

process.stdin.on("close", () => process.exit()).resume();
