-- The requests that wrk sends, and its report: one line of JSON. Arguments: the method, the body, and the number of client
-- addresses to rotate through (0: send no address).

function init(args)
  wrk.method = args[1]
  if args[2] ~= "" then
    wrk.body = args[2]
  end
  local addresses = tonumber(args[3])
  if addresses == 0 then
    return
  end
  -- Built in advance, because the load generator must not be the bottleneck.
  local requests = {}
  for i = 1, addresses do
    wrk.headers["CF-Connecting-IP"] = string.format("10.%d.%d.%d", i / 65536, i / 256 % 256, i % 256)
    requests[i] = wrk.format()
  end
  local last = 0
  function request()
    last = last % addresses + 1
    return requests[last]
  end
end

function done(summary, latency)
  local errors = summary.errors
  local percentiles = {}
  for i = 1, 1000 do
    percentiles[i] = latency:percentile(i / 10) / 1e3
  end
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"latenciesMs":[%s],"errorResponses":%d,"socketErrors":%d}\n',
    summary.requests, summary.duration / 1e6, table.concat(percentiles, ","), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
