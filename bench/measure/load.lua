-- The requests that wrk sends, and its report: one line of JSON. Arguments: the method, the body, the number of client
-- addresses to rotate through (0: send no address), and a file of requests to rotate through instead, each a line of a path, a
-- tab and the Authorization header (empty: send one request).

function init(args)
  wrk.method = args[1]
  if args[2] ~= "" then
    wrk.body = args[2]
  end
  -- Built in advance, because the load generator must not be the bottleneck.
  local requests = {}
  for i = 1, tonumber(args[3]) do
    wrk.headers["CF-Connecting-IP"] = string.format("10.%d.%d.%d", i / 65536, i / 256 % 256, i % 256)
    requests[i] = wrk.format()
  end
  for line in io.lines(args[4]) do
    local path, authorization = line:match("^(.*)\t(.*)$")
    wrk.headers["Authorization"] = authorization
    requests[#requests + 1] = wrk.format(nil, path)
  end
  if #requests == 0 then
    return
  end
  local last = 0
  function request()
    last = last % #requests + 1
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
