-- Encodes the reply as text, byte by byte as in text_decode.lua. The text is '~', the time, the
-- length of each string in bytes, separated by ':', then ';' and the strings. No other text that a
-- client could mistake for a value begins with '~'.
if reply.err then
  return reply
end
local head = { '~' .. string.format('%.0f', reply[1]) }
for number = 2, #reply do
  head[number] = #reply[number]
end
local text = string.gsub(table.concat(reply, '', 2), '[\128-\255]', setmetatable({}, {
  __index = function(characters, byte)
    local number = string.byte(byte)
    characters[byte] = number < 192 and '\194' .. byte or '\195' .. string.char(number - 64)
    return characters[byte]
  end,
}))
return table.concat(head, ':') .. ';' .. text
