// An order and its payment in one MongoDB transaction, with nothing of Tandem's but the collection.
//
//     npm ci
//     node order.mjs ORDER PAYER CENTS [poll|watch]
//
// The payment's document says that it is `unpublished`, so a worker finds it after the commit: there is
// no message to send, and the program may die at any moment. Run again with the same order, it pays
// nothing twice: the payment's `_id` is made from the order's. It prints how the payment ended.

import { Long, MongoClient } from 'mongodb';

const FINAL = ['done', 'canceled'];
const [order, payer, cents, how = 'poll'] = process.argv.slice(2);
const mongo = new MongoClient(process.env.TANDEM_MONGODB_URI);
const database = mongo.db(process.env.TANDEM_DATABASE);
const orders = database.collection('orders');
const transactions = database.collection('transactions');

// The same order again stores nothing. One that came with another price is refused.
async function place(session, id) {
  const known = await orders.findOne({ _id: order }, { session });
  if (known) {
    if (known.payer === payer && known.cents === Number(cents)) return;
    throw new Error(`order ${order} was placed before, with another content`);
  }
  await orders.insertOne({ _id: order, payer, cents: Number(cents), payment: id }, { session });
  const now = new Date();
  await transactions.insertOne({
    _id: id,
    source: payer,
    destination: 'shop',
    value: Long.fromString(cents), // whole minor units
    state: 'initial',
    unpublished: true,
    createdAt: now,
    lastModified: now,
    metadata: { order },
  }, { session });
}

// Asks Tandem's API, which answers as soon as there is something to tell.
async function polled(id) {
  for (;;) {
    const address = `${process.env.TANDEM_API}/v1/transactions/${encodeURIComponent(id)}?wait=30`;
    const answer = await fetch(address, { headers: { accept: 'application/json' } });
    if (!answer.ok) throw new Error(await answer.text());
    const found = await answer.json();
    if (FINAL.includes(found.state)) return found;
  }
}

// Watches the one document. The stream is opened first: what happens before the look is seen by the look.
async function watched(id) {
  const ofIt = [{ $match: { 'documentKey._id': id } }];
  const stream = transactions.watch(ofIt, { fullDocument: 'updateLookup' });
  try {
    await stream.tryNext();
    let found = await transactions.findOne({ _id: id }, { readConcern: { level: 'majority' } });
    while (!FINAL.includes(found.state)) found = (await stream.next()).fullDocument;
    return found;
  } finally {
    await stream.close();
  }
}

try {
  const payment = `order-${order}`;
  // The driver runs the callback again where another client was in the way.
  await mongo.withSession((session) =>
    session.withTransaction(() => place(session, payment), { writeConcern: { w: 'majority' } }));
  console.log(`committed ${payment}`);
  const found = await (how === 'watch' ? watched(payment) : polled(payment));
  console.log(found.state === 'done' ? 'paid' : `not paid: ${found.reason.message}`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await mongo.close();
}
