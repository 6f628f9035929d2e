// A program that was there before Tandem: it adds to random balances all the time, by the numbers
// that a JavaScript program has, until a file is there. Then it writes what it has added to each
// account, and how long each update took. `count`, `stop` and `told` are set by --eval.
const fs = require("fs");

const users = db.getCollection("user");
const added = {};
const took = [];
while (!fs.existsSync(stop)) {
  const n = Math.floor(Math.random() * count);
  const amount = Math.floor(Math.random() * 13) - 3;
  const typed = [amount, Double(amount), Long.fromNumber(amount)][n % 3];
  const begun = process.hrtime.bigint();
  const result = users.updateOne(
    { _id: ObjectId((n + 1).toString(16).padStart(24, "0")) },
    { $inc: { "wallet.score": typed } },
  );
  took.push([Date.now(), Number((process.hrtime.bigint() - begun) / 1000n)]);
  if (result.matchedCount !== 1) {
    throw new Error(`account ${n} is not there`);
  }
  added[n] = (added[n] ?? 0) + amount;
}
fs.writeFileSync(told, JSON.stringify({ added, took }));
