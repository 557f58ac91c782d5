// Building and patching DOM nodes. Text becomes text nodes and nothing else: no
// function here takes markup.

const svgNS = "http://www.w3.org/2000/svg";

// h makes an element. Attributes that are null, undefined or false are left out;
// handlers are not attributes (see delegate), so a name that starts with "on" is
// a mistake.
export function h(tag, attrs, ...kids) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (/^on/i.test(name)) throw new Error("handlers are not attributes: " + name);
    el.setAttribute(name, value === true ? "" : String(value));
  }
  append(el, kids);
  return el;
}

// append adds nodes and texts, skipping what is empty.
export function append(el, kids) {
  for (const kid of kids.flat(Infinity)) {
    if (kid === null || kid === undefined || kid === false || kid === "") continue;
    el.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
  }
  return el;
}

// icon makes a line drawing from one path in a 24 by 24 box.
export function icon(path) {
  const svg = document.createElementNS(svgNS, "svg");
  for (const [k, v] of Object.entries({
    viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", fill: "none", stroke: "currentColor",
    "stroke-width": "2", "stroke-linecap": "round", "stroke-linejoin": "round",
  })) svg.setAttribute(k, v);
  const p = document.createElementNS(svgNS, "path");
  p.setAttribute("d", path);
  svg.append(p);
  return svg;
}

const keyOf = (n) => (n.nodeType === Node.ELEMENT_NODE ? n.getAttribute("data-key") : null);

// morph changes node so that it equals next, keeping the nodes that are already
// right: focus, selection and scroll positions live in them.
export function morph(node, next) {
  if (node.nodeType !== next.nodeType || node.nodeName !== next.nodeName || keyOf(node) !== keyOf(next)) {
    node.replaceWith(next);
    return next;
  }
  if (node.nodeType !== Node.ELEMENT_NODE) {
    morphText(node, next);
    return node;
  }
  morphAttributes(node, next);
  morphChildren(node, next);
  return node;
}

function morphText(node, next) {
  if (node.data === next.data) return;
  if (next.data.startsWith(node.data)) node.appendData(next.data.slice(node.data.length));
  else node.data = next.data;
}

function morphAttributes(node, next) {
  for (const { name } of [...node.attributes]) {
    if (!next.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
}

function morphChildren(node, next) {
  const wants = [...next.childNodes];
  const wanted = new Set(wants.map(keyOf));
  const keyed = new Map();
  const free = [];
  for (const kid of [...node.childNodes]) {
    if (keyOf(kid) === null) free.push(kid);
    else if (wanted.has(keyOf(kid)) && !keyed.has(keyOf(kid))) keyed.set(keyOf(kid), kid);
    else kid.remove();
  }
  let at = node.firstChild;
  for (const want of wants) {
    const key = keyOf(want);
    const have = key === null ? free.shift() : keyed.get(key);
    if (!have) {
      node.insertBefore(want, at);
    } else if (have === at) {
      at = at.nextSibling;
      morph(have, want);
    } else {
      node.insertBefore(morph(have, want), at);
    }
  }
  for (const kid of free) kid.remove();
}
