// The statements of "Account Transactions", in the database of this shell in place of
// `db.getSisterDB("bank")`. What is corrected is in deploy/schemas/accounts-by-name.toml.

var col = db.accounts;
col.insert({name: "Joe Moneylender", balance: 1000, pendingTransactions:[]});
col.insert({name: "Peter Bum", balance: 1000, pendingTransactions:[]});

var col = db.transactions;
col.insert({source: "Joe Moneylender", destination: "Peter Bum", amount: 100, state: "initial"});

var col = db.accounts;
col.createIndex({name:1}, {unique: true});

// One that Joe can't pay.
var col = db.transactions;
col.insert({source: "Joe Moneylender", destination: "Peter Bum", amount: 2000, state: "initial"});
