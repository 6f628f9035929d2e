// The statements of the MongoDB manual's tutorial "Perform Two Phase Commits", with numbers as the
// shell `mongo` of its time wrote them: each of them is a double.

db.accounts.insert( [ { _id: "A", balance: Double(1000), pendingTransactions: [] }, { _id: "B", balance: Double(1000), pendingTransactions: [] } ] )

db.transactions.insert( { _id: Double(1), source: "A", destination: "B", value: Double(1100), state: "initial", lastModified: new Date() } )

// One for an account that is not there.
db.transactions.insert( { _id: Double(2), source: "A", destination: "C", value: Double(100), state: "initial", lastModified: new Date() } )
