-- Returns the records of tasks with what their checksums cover; nil in place of one that has another size than the caller
-- expects, or more beside it than a server stores.
local found = {}
for i = 4, #ARGV, 2 do
  local key = P .. 'task:' .. ARGV[i]
  -- `false` is nil in a reply.
  local is = false
  if redis.pcall('HSTRLEN', key, 'base') == tonumber(ARGV[i + 1]) then
    is = redis.call('HMGET', key, 'owner', 'settled', 'revision', 'base_revision', 'sum', 'base')
    for field = 1, 5 do
      if is and bounded_text(is[field]) ~= (is[field] or '') then
        is = false
      end
    end
  end
  found[#found + 1] = is
end
return found
