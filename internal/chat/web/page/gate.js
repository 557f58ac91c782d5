// The form that asks for a token.
import { h } from "./dom.js";

// gateForm fills main; open is called with the token that was given, be it alone
// or in the whole link.
export function gateForm(main, message, open) {
  const field = h("input", { id: "token", type: "password", autocomplete: "off" });
  const form = h("form", { class: "gate" }, h("img", { src: "icon.svg", alt: "", width: "40", height: "40" }), h("h1", {}, "Countersign"), h("p", {}, message),
    h("label", { for: "token" }, "Token"), field, h("button", { type: "submit", class: "button primary" }, "Open"));
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const given = field.value.trim();
    const token = given.includes("token=") ? new URLSearchParams(given.slice(given.indexOf("#") + 1)).get("token") : given;
    if (token) open(token);
  });
  main.replaceChildren(form);
  field.focus();
}
