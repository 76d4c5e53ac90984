"""What Redis does in one step, in its own language. Each script has one key: so it runs in a cluster too.

Arguments are numbers that we made and bytes that Redis only stores; nothing of them is ever run.
"""

from __future__ import annotations

from hashlib import sha1

ADMIT = """\
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local limit, window, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lease, more = tonumber(ARGV[4]), tonumber(ARGV[5])
local key = KEYS[1]
local newest = redis.call('LINDEX', key, 0)
if newest and tonumber(newest) > now + 1000000 then
  local ahead = tonumber(newest) - now
  local stamps = redis.call('LRANGE', key, 0, -1)
  redis.call('DEL', key)
  for i = 1, #stamps do
    redis.call('RPUSH', key, string.format('%.0f', stamps[i] - ahead))
  end
end
local first = limit - want
if first < 0 then first = 0 end
local found = redis.call('LRANGE', key, first, limit - 1)
local most = math.min(want, limit)
local admitted, wait = 0, 0
for place = 1, most do
  local stamp = found[limit - place - first + 1]
  if stamp and tonumber(stamp) > now - window then
    wait = tonumber(stamp) + window - now
    break
  end
  admitted = place
end
local lent = 0
if admitted > 0 then
  if admitted == want and more > 0 then
    local place = math.floor(limit * 0.8) - more - admitted
    local busy = place < 0 or redis.call('LINDEX', key, place)
    if not busy or (place >= 0 and tonumber(busy) <= now - window) then lent = more end
  end
  local stamp, later = string.format('%.0f', now), {}
  local head = redis.call('LINDEX', key, 0)
  while head and tonumber(head) > now do
    later[#later + 1] = redis.call('LPOP', key)
    head = redis.call('LINDEX', key, 0)
  end
  for i = 1, admitted do redis.call('LPUSH', key, stamp) end
  for i = #later, 1, -1 do redis.call('LPUSH', key, later[i]) end
  if lent > 0 then
    stamp = string.format('%.0f', now + lease)
    for i = 1, lent do redis.call('LPUSH', key, stamp) end
  end
  for i = 1, 2 * admitted + 8 do
    local oldest = redis.call('LINDEX', key, -1)
    if not oldest or tonumber(oldest) > now - window then break end
    redis.call('RPOP', key)
  end
  redis.call('PEXPIRE', key, math.ceil((window + lease) / 1000) + 1)
end
if admitted == most and admitted < want then
  local stamp = redis.call('LINDEX', key, limit - 1)
  wait = tonumber(stamp) + window - now
end
return {admitted, wait, lent}
"""
"""The list has the stamps of what passed, the newest first. One more may pass when the limit-th newest is
older than the window. A clock that was put back shifts the stamps with it: the distances stay.

What is lent has the stamp of the last moment at which it may be used, and is lent only while a fifth of the
limit is free. Whoever comes before that moment puts its own stamps below.

The key does not hold the limit, so the list may be longer than one caller's limit; what is older than the
window goes, a little with every call."""

FIND = """\
local value = redis.call('GET', KEYS[1])
if value then return value end
redis.call('SET', KEYS[1], '?', 'PX', ARGV[1])
return 0
"""
"""The value; `?` while somebody makes it; 0 for the first to ask, who then makes it."""

RELEASE = """\
if redis.call('GET', KEYS[1]) == '?' then return redis.call('DEL', KEYS[1]) end
return 0
"""

WRITE = """\
local key, at = KEYS[1], 5
for i = 1, tonumber(ARGV[2]) do redis.call('HDEL', key, ARGV[at]); at = at + 1 end
for i = 1, tonumber(ARGV[3]) do redis.call('HSET', key, ARGV[at], ARGV[at + 1]); at = at + 2 end
for i = 1, tonumber(ARGV[4]) do redis.call('HINCRBYFLOAT', key, ARGV[at], ARGV[at + 1]); at = at + 2 end
redis.call('PEXPIRE', key, ARGV[1])
return 1
"""

TAKE = """\
local value = redis.call('HGET', KEYS[1], ARGV[1])
if value then redis.call('HDEL', KEYS[1], ARGV[1]) end
return value
"""

ENLIST = """\
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 9 * ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 10)
return redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, 4096)
"""

_ALL = (ADMIT, FIND, RELEASE, WRITE, TAKE, ENLIST)
SHA = {script: sha1(script.encode(), usedforsecurity=False).hexdigest() for script in _ALL}
"""What Redis calls them."""
