-- Returns the size of the record of each task: 0 without a record, nil if no server stores what the task has.
local sizes = {}
for i = 4, #ARGV do
  local key = P .. 'task:' .. ARGV[i]
  local is = fields(key, 'owner', 'settled', 'revision', 'base_revision', 'sum')
  local size = is and redis.call('HSTRLEN', key, 'base') or 0
  for field = 1, is and 5 or 0 do
    size = short(is[field]) == (is[field] or '') and size
  end
  -- `false` is nil in a reply.
  sizes[#sizes + 1] = size and (size <= 2 ^ 24 or size <= allowance(ARGV[i])) and size
end
return sizes
