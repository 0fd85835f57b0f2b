-- Returns a page of `index`, the last changed first: the total, whether another page follows, and the rows. Filters by
-- owner, state and since where they are given. The rows are summaries, or with `places` the ids and the scores
-- in turns.
local index, size, score, last = P .. ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local owner, state, since = ARGV[8], ARGV[9], ARGV[10]
local places = ARGV[11] == '1'
local asks = state ~= '' or since ~= ''
-- All tasks of a context have the owner of the context.
if owner ~= '' then
  asks = asks or redis.pcall('HGET', P .. 'opened:' .. string.sub(ARGV[4], #'context:' + 1), 'owner') ~= owner
end

local function takes(id)
  local is = fields(P .. 'task:' .. id, 'owner', 'state', 'since')
  return is and is[1] and (owner == '' or is[1] == owner) and (state == '' or is[2] == state)
    and (since == '' or count(is[3]) >= tonumber(since) and is[3] ~= '')
end

-- Compares bytes, as Redis does; `<` of Lua uses the locale.
local function below(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

local function past(id, at)
  if score == '' then
    return true
  end
  local a, b = time(at), tonumber(score)
  return a < b or (a == b and below(id, last))
end

-- Returns whether all tasks exist that `found`, ids and scores in turns, names.
local function exist(found)
  local keys = {}
  for i = 1, #found, 2 do
    if bounded_text(found[i]) ~= found[i] then
      return false
    end
    keys[#keys + 1] = P .. 'task:' .. found[i]
  end
  return #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys
end

-- The first page, if it needs no filter and no deletion. No table has the keys of more tasks than this.
if places and not asks and score == '' and size < 256 then
  local found = redis.call('ZREVRANGEBYSCORE', index, '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, size + 1)
  if exist(found) then
    local more = #found > 2 * size and 1 or 0
    if more == 1 then
      found[#found], found[#found - 1] = nil, nil
    end
    return { redis.call('ZCARD', index), more, found }
  end
end

-- Returns the row of a task; nil if the task does not exist.
local function row(id, at, exists)
  if not places then
    return listed(id, at)
  end
  local is = exists or fields(P .. 'task:' .. id, 'owner')
  return is and (exists or is[1]) and {}
end

local total, rows, taken, more, lost = 0, {}, 0, 0, {}
-- A filter has to see all tasks to count them.
local max = (asks or score == '' or tonumber(score) >= 2 ^ 53) and '+inf' or score
if not asks then
  total = redis.call('ZCARD', index)
end
local offset, step = 0, asks and 256 or math.min(256, size + 1)
while more == 0 or asks do
  local found = redis.call('ZREVRANGEBYSCORE', index, max, '-inf', 'WITHSCORES', 'LIMIT', offset, step)
  local exists = asks or (places and exist(found))
  for i = 1, #found, 2 do
    local id, at = found[i], found[i + 1]
    if not asks or takes(id) then
      if asks then
        total = total + 1
      end
      if taken == size then
        more = (more == 1 or past(id, at)) and 1 or 0
      elseif past(id, at) then
        local task = bounded_text(id) == id and row(id, at, exists)
        if not task then
          lost[#lost + 1] = id
        elseif places or owner == '' or task[4] == owner then
          taken = taken + 1
          if places then
            rows[#rows + 1], rows[#rows + 2] = id, at
          else
            rows[#rows + 1] = task
          end
        end
      end
    end
  end
  if #found < 2 * step then
    break
  end
  offset = offset + step
end
-- Redis evicted these tasks, or another program added them. A list does without the deletion where Redis takes no changes.
for _, id in ipairs(lost) do
  redis.pcall('ZREM', index, id)
end
return { asks and total or total - #lost, more, rows }
