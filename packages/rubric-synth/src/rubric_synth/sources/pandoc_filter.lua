-- What pandoc read, as plain Markdown without escapes, attributes, notes, citations and pictures.
-- In reStructuredText, roles become their words and directives that are no prose go.

local is_rst = false

local kept = pandoc.List{
  'abstract', 'admonition', 'attention', 'caution', 'compound', 'container', 'danger', 'dropdown',
  'epigraph', 'error', 'glossary', 'grid', 'grid-item', 'grid-item-card', 'highlights', 'hint',
  'hlist', 'important', 'note', 'only', 'pull-quote', 'rst-class', 'sidebar', 'tab-item',
  'tab-set', 'tip', 'topic', 'warning', 'line-block', 'section', 'card',
}
-- Their first paragraph is an argument for the program that lays pages out.
local with_argument = pandoc.List{'only', 'grid', 'hlist', 'container', 'rst-class', 'tab-set'}
local no_words = pandoc.List{'eq', 'cite', 'footcite', 'cite:p', 'cite:ps', 'footcite:p', 'sub-ref'}
local field = {param = true, parameter = true, type = true, returns = true, rtype = true,
  raises = true, key = true, keyword = true, var = true, ivar = true, vartype = true,
  orphan = true, Author = true, Authors = true, Date = true, Version = true}

local function words(label)
  return (label:gsub('^.*/', ''):gsub('^%a+:(%S)', '%1'):gsub('[-_]+', ' '))
end

local function role_text(role, text)
  if no_words:includes(role) then return nil end
  local title = text:match('^(.-)%s*<[^<>]*>$')
  if title and title ~= '' then return title end
  text = text:gsub('^[!~<]*', function(marks)
    return marks:find('~') and '~' or ''
  end):gsub('>$', '')
  if text:sub(1, 1) == '~' then return (text:match('([^.]+)$') or text:sub(2)):gsub('^~', '') end
  -- A label is no word of the page; those of this file have their headings' titles by now.
  if role:match('ref$') then return nil end
  if role == 'doc' or role == 'std:doc' then return words(text) end
  return text
end

local function is_prose(block)
  if block.t ~= 'Para' then return block.t:match('List$') ~= nil end
  local text = pandoc.utils.stringify(block)
  local _, count = text:gsub('%S+', '')
  return count >= 6 and text:match('[.?!:]["\')]*$') ~= nil and not text:match('^>>>')
end

-- First, on what pandoc read.

-- Of a key such as Pugh1987 or smith:2004b, the author; what says nothing else is no word.
local function author(cite)
  local key = cite.citations[1].id
  local name = key:match('^(%a%a%a+)[:_.%-]?%d%d') or key:match('^(%u%l%l+)$')
  if cite.citations[1].mode ~= 'AuthorInText' or not name then return nil end
  return name:sub(1, 1):upper() .. name:sub(2)
end

local function without_gaps(inlines)
  local result = pandoc.Inlines{}
  for _, inline in ipairs(inlines) do
    local gone = (inline.t == 'Cite' and author(inline) == nil)
      or inline.t == 'Note' or inline.t == 'Image' or inline.t == 'RawInline'
      or (inline.t == 'Link' and (inline.classes:includes('citation')
        or inline.attributes['reference-type']))
      or (inline.t == 'Code' and inline.classes:includes('interpreted-text')
        and role_text(inline.attributes.role, inline.text) == nil)
    if not gone then
      result:insert(inline)
    elseif #result > 0 and (result[#result].t == 'Space' or result[#result].t == 'SoftBreak') then
      result:remove(#result)
    end
  end
  return result
end

local function div(block)
  if block.classes:includes('thebibliography') then return {} end
  if not is_rst or #block.classes == 0 then
    if block.identifier == 'refs' or block.identifier == 'citations' then return {} end
    return block.content
  end
  local name = block.classes[1]
  if name == 'title' then return {} end
  local content = block.content
  if with_argument:includes(name) then content:remove(1) end
  if kept:includes(name) then return content end
  return content:filter(is_prose)
end

local function definition_list(list)
  local result = pandoc.Blocks{}
  for _, item in ipairs(list.content) do
    local term = pandoc.utils.stringify(item[1])
    if not (is_rst and field[term:match('^%S*')]) then
      for _, blocks in ipairs(item[2]) do
        local first = blocks[1]
        if first and (first.t == 'Para' or first.t == 'Plain') then
          local inlines = pandoc.Inlines{pandoc.Str(term .. ':'), pandoc.Space()}
          result:insert(pandoc.Para(inlines .. first.content))
          blocks:remove(1)
        elseif term ~= '' then
          result:insert(pandoc.Para{pandoc.Str(term .. ':')})
        end
        result:extend(blocks)
      end
    end
  end
  return result
end

local function plain_table(whole)
  local done, simple = pcall(pandoc.utils.to_simple_table, whole)
  if not done or #simple.rows == 0 then return {} end
  local function cells(row)
    return row:map(function(cell)
      return pandoc.Blocks{pandoc.Plain{pandoc.Str(pandoc.utils.stringify(cell))}}
    end)
  end
  simple.caption = pandoc.Inlines{}
  simple.header = cells(simple.header)
  simple.rows = simple.rows:map(cells)
  simple.widths = simple.widths:map(function() return 0 end)
  return pandoc.utils.from_simple_table(simple)
end

-- What stands raised or lowered is told from the rest by whoever reads the Markdown.
local function tagged(name, inline)
  return pandoc.Inlines{pandoc.RawInline('commonmark', '<' .. name .. '>')} .. inline.content
    .. {pandoc.RawInline('commonmark', '</' .. name .. '>')}
end

local first = {
  Cite = function(cite) return pandoc.Str(author(cite)) end,
  Code = function(code)
    if code.classes:includes('interpreted-text') then
      return pandoc.Str(role_text(code.attributes.role, code.text))
    end
    return pandoc.Code(code.text)
  end,
  Link = function(link)
    if link.target:match('^##SUBST##') then
      return pandoc.Str(words(link.target:gsub('^##SUBST##', ''):gsub('|', '')))
    end
    return link.content
  end,
  Span = function(span) return span.content end,
  -- Within a word, marks of emphasis might be taken for signs: 1*s*.
  Emph = function(inline) return inline.content end,
  Strong = function(inline) return inline.content end,
  Underline = function(inline) return inline.content end,
  SmallCaps = function(inline) return inline.content end,
  Strikeout = function() return {} end,
  Superscript = function(inline) return tagged('sup', inline) end,
  Subscript = function(inline) return tagged('sub', inline) end,
  Quoted = function(quoted)
    local mark = quoted.quotetype == 'SingleQuote' and "'" or '"'
    return pandoc.Inlines{pandoc.Str(mark)} .. quoted.content .. {pandoc.Str(mark)}
  end,
}

local second = {
  Div = div,
  DefinitionList = definition_list,
  Table = plain_table,
  Figure = function() return {} end,
  RawBlock = function() return {} end,
  LineBlock = function(block)
    local all = pandoc.Inlines{}
    for _, line in ipairs(block.content) do
      if #all > 0 then all:insert(pandoc.Space()) end
      all:extend(line)
    end
    return pandoc.Para(all)
  end,
  Para = function(para)
    if #para.content == 0 or pandoc.utils.stringify(para):match('^>>>') then return {} end
  end,
  CodeBlock = function(block)
    return pandoc.CodeBlock(block.text, {'', block.classes:filter(function(name)
      return name:match('^%w+$') ~= nil
    end), {}})
  end,
  Header = function(header)
    if pandoc.utils.stringify(header) == '' then return {} end
    return pandoc.Header(header.level, header.content)
  end,
}

-- Last, so that the writer escapes nothing.
local function as_it_is(text) return pandoc.RawInline('commonmark', text) end
local last = {
  Str = function(str) return as_it_is(str.text) end,
  Math = function(math)
    local mark = math.mathtype == 'DisplayMath' and '$$' or '$'
    return as_it_is(mark .. math.text .. mark)
  end,
}

local function with_title(doc)
  local start = pandoc.Blocks{}
  local function texts(value)
    local kind = pandoc.utils.type(value)
    if kind == 'Blocks' then return value end
    return kind == 'Inlines' and pandoc.Blocks{pandoc.Para(value)} or pandoc.Blocks{}
  end
  if pandoc.utils.type(doc.meta.title) == 'Inlines' then
    start:insert(pandoc.Header(1, doc.meta.title))
    doc.blocks = doc.blocks:walk{Header = function(header)
      return pandoc.Header(math.min(header.level + 1, 6), header.content)
    end}
  end
  start:extend(texts(doc.meta.abstract))
  return pandoc.Pandoc(start .. doc.blocks)
end

function Pandoc(doc)
  is_rst = doc.meta['rubric-synth-format'] == 'rst'
  return with_title(doc):walk{Inlines = without_gaps}:walk(first):walk(second):walk(last)
end
