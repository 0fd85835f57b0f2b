local id, record, revision, owner, context, session = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local state, since, changed, phase, token = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local created, agent, asked, says = ARGV[15], ARGV[16], ARGV[17], ARGV[18]
local key = P .. 'task:' .. id
if redis.call('EXISTS', key) == 1 then
  -- A retry of a call whose response was lost.
  return redis.call('HGET', key, 'token') == token and 'ok' or 'conflict'
end
local task = { 'base', record, 'base_revision', revision, 'revision', revision, 'owner', owner, 'context', context,
  'state', state, 'since', since, 'token', token, 'created', created, 'bytes', string.format('%.0f', #record) }
put(task, 'agent', agent)
put(task, 'asked', asked)
put(task, 'says', says)
put(task, 'server', phase == 'run' and me or '')
-- First, because another server recovers the tasks of this set, whichever write below Redis refuses.
if phase == 'run' then
  redis.call('SADD', P .. 'running:' .. me, id)
end
redis.call('HSET', key, unpack(task))
charge(owner, #record)
for _, index in ipairs(indexes(owner, context, state)) do
  redis.call('ZADD', index, changed, id)
end
local opened = P .. 'opened:' .. context
redis.call('HSETNX', opened, 'owner', owner)
redis.call('HSETNX', opened, 'session', session)
redis.call('PERSIST', opened)
if phase == 'done' then
  settle(id, owner, changed)
end
return 'ok'
