-- Submissions for wrk: each request has ids of its own. TANDEM_LOAD_RUN is put before all ids, and
-- TANDEM_LOAD_ITEMS is how many transfers a request has: 1 is an object, more are an array.

local run = os.getenv("TANDEM_LOAD_RUN")
local items = tonumber(os.getenv("TANDEM_LOAD_ITEMS"))
local accounts = tonumber(os.getenv("TANDEM_LOAD_ACCOUNTS"))
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init()
  math.randomseed(number + 1)
  counter = 0
end

local function transfer()
  counter = counter + 1
  local from = math.random(0, accounts - 1)
  local to = (from + math.random(1, accounts - 1)) % accounts
  return string.format(
    '{"id":"%s-%d-%d","source":"load-%d","destination":"load-%d","value":1}',
    run, number, counter, from, to)
end

function request()
  local path, body
  if items == 1 then
    path, body = "/v1/transactions", transfer()
  else
    local list = {}
    for n = 1, items do list[n] = transfer() end
    path, body = "/v1/batch", "[" .. table.concat(list, ",") .. "]"
  end
  return wrk.format("POST", path, { ["Content-Type"] = "application/json" }, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%.3f,"p50_ms":%.2f,"p99_ms":%.2f,"max_ms":%.2f,"bad_statuses":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
