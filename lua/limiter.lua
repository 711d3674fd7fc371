--@include clock.lua
-- The script that decides calls. In all files, `--@include FILE` stands for a file of this folder;
-- src/redis/script.rs composes them.
--
-- It decides one request (see dispatch/batch.lua):
--
-- KEYS        the keys
-- ARGV[1]     the request
-- ARGV[2]     'peek' if the script must write nothing
--
-- Or it decides many requests of a cluster's node, each with keys of one slot. A script may declare
-- keys of one slot only, but it may use all keys of its node. So these requests share the start of
-- one script.
--
-- ARGV[1]     the number of different requests (one byte); then for each request to decide: which
--             of them (one byte, from 1), and the number of its keys (one byte)
-- ARGV[2]     'node'
-- ARGV[3...]  the different requests, then the keys of all requests in turn
--
-- The reply is the time, the length of each lone call's state (one byte, 0 for other requests),
-- these states, and the replies to the other requests. A reply is nil where the node must not use
-- the keys; then nothing has been written, because a request reads all its keys first.
--
-- Redis creates the functions that a script defines on every run, and each upvalue adds to the
-- cost. So a lone call is decided before any function is created. Each other path is a function
-- that creates its own functions when it is called, and that receives the context.
local is_node_batch, requests, at_request = ARGV[2] == 'node', ARGV[1], 2
local sizes, states, replies, key_offset, decide
if is_node_batch then
  sizes, states, replies, key_offset = {}, {}, { now, '', '' }, 2 + string.byte(requests)
end
repeat
  local request, name, key_count = requests, KEYS[1], #KEYS
  if is_node_batch then
    local number
    number, key_count = string.byte(requests, at_request, at_request + 1)
    request, name = ARGV[2 + number], ARGV[key_offset + 1]
  end
  local decided, reply
  if key_count == 1 then
    --@include dispatch/lone_call.lua
  end
  if not decided and not reply then
    decide = decide or function(KEYS, request, is_peek)
      --@include dispatch/fast_paths.lua
      --@include executor/load.lua
      --@include dispatch/single_policy.lua
      --@include dispatch/multi_policy.lua
      --@include dispatch/batch.lua
      --@include dispatch/decide.lua
    end
  end
  if not is_node_batch then
    return reply or decided and { now, decided, '', '' } or decide(KEYS, request, ARGV[2] == 'peek')
  end
  if decided then
    sizes[#sizes + 1], states[#states + 1] = string.char(#decided), decided
  else
    local is_readable, reply = pcall(decide, { unpack(ARGV, key_offset + 1, key_offset + key_count) }, request)
    sizes[#sizes + 1], replies[#replies + 1] = '\0', is_readable and reply
  end
  at_request, key_offset = at_request + 2, key_offset + key_count
until at_request > #requests
replies[2], replies[3] = table.concat(sizes), table.concat(states)
return replies
