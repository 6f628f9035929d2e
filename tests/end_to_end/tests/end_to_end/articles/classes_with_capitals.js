// What the C# program of "MongoDB模拟多文档事务操作" inserts, as its driver writes it: exact decimals,
// and null for a list that nobody has set. It makes the ids of transactions of both accounts.

db.UserAccounts.insertMany([
  { _id: "A", Balance: NumberDecimal("1000"), PendingTransactions: [] },
  { _id: "B", Balance: NumberDecimal("1000"), PendingTransactions: null }
]);

db.TransactionCollection.insertOne({
  _id: "AForB", Source: "A", Destination: "B", Value: NumberDecimal("100"),
  State: "initial", LastModified: new Date()
});

// One that B can't pay.
db.TransactionCollection.insertOne({
  _id: "BForA", Source: "B", Destination: "A", Value: NumberDecimal("2000.50"),
  State: "initial", LastModified: new Date()
});
