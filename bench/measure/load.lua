-- The requests that wrk sends, and its report: one line of JSON. Arguments: the method, the body, and a file of requests to send
-- in turn, each a line of a path, a tab, the name of a header, a tab and its value (empty: send one request again and again).

function init(args)
  wrk.method = args[1]
  if args[2] ~= "" then
    wrk.body = args[2]
  end
  -- Built in advance, because the load generator must not be the bottleneck.
  local requests = {}
  for line in io.lines(args[3]) do
    local path, name, value = line:match("^(.*)\t(.*)\t(.*)$")
    wrk.headers[name] = value
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

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"errorResponses":%d,"socketErrors":%d}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
