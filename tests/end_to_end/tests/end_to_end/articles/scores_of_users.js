// The statement of "Node.js中实现MongoDB的两阶段提交" that begins a transfer of points, and the users
// that it is for. What is corrected is in deploy/schemas/scores-of-users.toml.

// What its library mongoskin calls `collection`.
const dbskin = {collection: name => db.getCollection(name)};

dbskin.collection('user').insert([
  {name:'allenny.iteye.com', score:100},
  {name:'B', score:0},
  {name:'C', score:0, state:'locked'}
]);
dbskin.collection('user').createIndex({name:1}, {unique:true});

dbskin.collection('transaction').insert(
  {from:'allenny.iteye.com', to:'B', score:10, state:'initial'}
);

// One for a user who is locked.
dbskin.collection('transaction').insert(
  {from:'allenny.iteye.com', to:'C', score:10, state:'initial'}
);
