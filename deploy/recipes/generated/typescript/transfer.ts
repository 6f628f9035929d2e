// Pays, awaits the outcome, and finds it among what ended, with a client that is generated from
// common/schemas/openapi.json.
//
//     npm ci && npm run generate && npm run build
//     node built/transfer.js ID SOURCE DESTINATION VALUE
//
// TANDEM_API is the address of the server, TANDEM_TOKEN a token of it, if it has any. It prints how
// the transaction ended: `done`, or `canceled` with the code of the reason, and the number of that
// end. What the server refuses ends it with 1 and the type of the problem.

import process from 'node:process';
import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

type Problem = components['schemas']['Problem'];
type Reason = components['schemas']['Reason'];

const [id = '', source = '', destination = '', value = ''] = process.argv.slice(2);
const token = process.env['TANDEM_TOKEN'];
const client = createClient<paths>({
  baseUrl: process.env['TANDEM_API'] ?? 'http://127.0.0.1:8080',
  headers: token ? { authorization: `Bearer ${token}` } : {},
});

// A set that is closed: a word that is not in it would not compile.
function advice(reason: Reason | undefined): string {
  switch (reason?.code) {
    case 'insufficient_funds':
      return 'ask for less';
    case 'account_not_found':
      return 'open the account';
    default:
      return reason?.message ?? '';
  }
}

function good<T>({ data, error }: { data?: T; error?: Problem }): T {
  if (!data) throw new Error(`${error?.type}: ${error?.detail}`);
  return data;
}

// After a lost answer, send the same again: the id is the idempotency key.
async function pay() {
  return good(await client.POST('/v1/transactions', {
    params: { query: { wait: 30 } },
    body: { id, source, destination, value, metadata: { program: 'transfer.ts' } },
  }));
}

// Who waits longer than one answer may take asks again.
async function ended() {
  let seen = await pay();
  while (seen.state !== 'done' && seen.state !== 'canceled') {
    seen = good(await client.GET('/v1/transactions/{id}', {
      params: { path: { id }, query: { wait: 30 } },
    }));
  }
  return seen;
}

// The list of what ended, from its beginning. A program that goes on keeps `next`.
async function numberOf(state: 'done' | 'canceled') {
  for (let after = 0; ; ) {
    const page = good(await client.GET('/v1/events', {
      params: {
        query: { after: `${after}`, wait: 10, state, metadata: { program: 'transfer.ts' } },
      },
    }));
    const found = page.items.find((item) => item.event.id === id);
    if (found) return found.number;
    after = page.next;
  }
}

try {
  const { state, reason } = await ended();
  if (state !== 'done' && state !== 'canceled') throw new Error('it has not ended');
  const number = await numberOf(state);
  const code = reason?.code ?? null;
  console.log(JSON.stringify({ state, code, number, advice: advice(reason) }));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
