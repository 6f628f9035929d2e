// The statements of the MongoDB manual's tutorial "Perform Two Phase Commits", as it writes them.

db.accounts.insert(
   [
     { _id: "A", balance: 1000, pendingTransactions: [] },
     { _id: "B", balance: 1000, pendingTransactions: [] }
   ]
)

db.transactions.insert(
    { _id: 1, source: "A", destination: "B", value: 100, state: "initial", lastModified: new Date() }
)

// One that A can't pay.
db.transactions.insert(
    { _id: 2, source: "A", destination: "B", value: 2000, state: "initial", lastModified: new Date() }
)
