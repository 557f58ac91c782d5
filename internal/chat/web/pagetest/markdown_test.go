package pagetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// render is what the page's Markdown makes of a text, as markup.
func (tb *tab) render(text string) string {
	tb.t.Helper()
	return value[string](tb, `import("/markdown.js").then((m) => m.markdown(`+quote(text)+`).innerHTML)`)
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	link := func(url, text string) string {
		return `<a href="` + url + `" rel="noopener noreferrer nofollow" target="_blank" title="` + url + `">` + text + `</a>`
	}
	for in, want := range map[string]string{
		"plain":                          `<p>plain</p>`,
		"a\nb":                           "<p>a\nb</p>",
		"a  \nb":                         "<p>a  <br>b</p>",
		"# One\n\n###### Six":            `<h3 class="md-h1">One</h3><h6 class="md-h6">Six</h6>`,
		"# Closed ##":                    `<h3 class="md-h1">Closed</h3>`,
		"Under\n=====":                   `<h3 class="md-h1">Under</h3>`,
		"#no":                            `<p>#no</p>`,
		"**b** and *i* and ~~s~~":        `<p><strong>b</strong> and <em>i</em> and <del>s</del></p>`,
		"***both***":                     `<p><em><strong>both</strong></em></p>`,
		"**a *b* c**":                    `<p><strong>a <em>b</em> c</strong></p>`,
		"snake_case_name and 2 * 3 * 4":  `<p>snake_case_name and 2 * 3 * 4</p>`,
		"*open":                          `<p>*open</p>`,
		"`a*b*` and ``x`y``":             `<p><code dir="ltr">a*b*</code> and <code dir="ltr">x` + "`" + `y</code></p>`,
		"`open":                          "<p>`open</p>",
		`\*not\* \<b\>`:                  `<p>*not* &lt;b&gt;</p>`,
		"AT&amp;T &#65; &bogus;":         `<p>AT&amp;T A &amp;bogus;</p>`,
		"- a\n- b\n  - c\n\n1. x\n2. y":  `<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol><li>x</li><li>y</li></ol>`,
		"-\ta\n\t- b":                    `<ul><li>a<ul><li>b</li></ul></li></ul>`,
		"3. three\n4. four":              `<ol start="3"><li>three</li><li>four</li></ol>`,
		"- a\n\n- b":                     `<ul><li><p>a</p></li><li><p>b</p></li></ul>`,
		"- [ ] todo\n- [x] done":         `<ul><li class="task">☐ todo</li><li class="task">☑ done</li></ul>`,
		"> a\n> b\n\nc":                  "<blockquote><p>a\nb</p></blockquote><p>c</p>",
		"---":                            `<hr>`,
		"[go](https://go.dev)":           `<p>` + link("https://go.dev/", "go") + `</p>`,
		"[**go** now](https://go.dev/a)": `<p>` + link("https://go.dev/a", "<strong>go</strong> now") + `</p>`,
		"see https://go.dev/x.":          `<p>see ` + link("https://go.dev/x", "https://go.dev/x") + `.</p>`,
		"<https://go.dev/>":              `<p>` + link("https://go.dev/", "https://go.dev/") + `</p>`,
		"[a](mailto:a@b.example)":        `<p>` + link("mailto:a@b.example", "a") + `</p>`,
		"[x] and [y](":                   `<p>[x] and [y](</p>`,
		"[w](https://e.example/a_(b))":   `<p>` + link("https://e.example/a_(b)", "w") + `</p>`,
		"![cat](https://e.example/c.png)": `<p><span class="image">` + link("https://e.example/c.png", "image: cat") +
			`</span></p>`,
		"[bank.example](https://evil.example/)": `<p><span>` + link("https://evil.example/", "bank.example") + ` (evil.example)</span></p>`,
		"[x](/relative)":                        `<p><span>x (/relative)</span></p>`,
		"[x](javascript:alert(1))":              `<p><span>x (javascript:alert(1))</span></p>`,
		"[x](data:text/html,hi)":                `<p><span>x (data:text/html,hi)</span></p>`,
		"[x](vbscript:x)":                       `<p><span>x (vbscript:x)</span></p>`,
		"[x]( javascript:alert(1))":             `<p><span>x (javascript:alert(1))</span></p>`,
		"<b>hi</b><script>1</script>":           `<p>&lt;b&gt;hi&lt;/b&gt;&lt;script&gt;1&lt;/script&gt;</p>`,
		"right\u202eleft":                       `<p>rightleft</p>`,
		"| a | b |\n| :-: | --: |\n| 1 | `x\\|y` |": `<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead><tr><th class="center" scope="col">a</th>` +
			`<th class="end" scope="col">b</th></tr></thead><tbody><tr><td class="center">1</td><td class="end"><code dir="ltr">x|y</code></td></tr></tbody></table></div>`,
	} {
		require.Equal(t, want, tb.render(in), "%q", in)
	}
}

func TestMarkdownCode(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	for in, want := range map[string]string{
		"```go\na <b> *c*\n\n```\nafter":  "a <b> *c*\n",
		"```make\nall:\n\tgo test\n```":   "all:\n\tgo test",
		"\tby tab":                        "by tab",
		"~~~\n```\n~~~":                   "```",
		"```\nnever closed":               "never closed",
		"    indented\n\n    more":        "indented\n\nmore",
		"- item\n  ```\n  in item\n  ```": "in item",
	} {
		got := value[string](tb, `import("/markdown.js").then((m) => m.markdown(`+quote(in)+`).querySelector("pre code").textContent)`)
		require.Equal(t, want, got, "%q", in)
	}
}

// Texts that make careless parsers go back and forth.
func TestMarkdownIsLinear(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	const n = 25_000
	for name, in := range map[string]string{
		"brackets":      strings.Repeat("[", n),
		"links":         strings.Repeat("[a](", n),
		"stars":         strings.Repeat("*a ", n/3),
		"stars closed":  strings.Repeat("*a*", n/3),
		"mixed marks":   strings.Repeat("*a_b~~", n/6),
		"ticks":         strings.Repeat("`a``b```", n/8),
		"quotes":        strings.Repeat("> ", n) + "x",
		"nested lists":  strings.Repeat("- ", n) + "x",
		"spaces":        "# a" + strings.Repeat(" ", 300_000) + "b",
		"table":         "|a|\n|-" + strings.Repeat(" ", 300_000) + "x",
		"fence":         "```" + strings.Repeat(" ", 300_000) + "`",
		"hashes":        "# " + strings.Repeat("#", 300_000) + "x",
		"newlines":      strings.Repeat("\n", 300_000),
		"short lines":   strings.Repeat("a\n", 150_000),
		"list items":    strings.Repeat("- a\n", 60_000),
		"table rows":    "|a|b|\n|-|-|\n" + strings.Repeat("|1|2|\n", 20_000),
		"unclosed tags": strings.Repeat("<https://", n),
		"entities":      strings.Repeat("&#6", n),
		"too long":      strings.Repeat("*a* [b](https://c.example) ", 40_000),
	} {
		// What else this machine has to do comes and goes; a parser that goes back and
		// forth is slow each time.
		took := time.Hour
		for tries := 0; tries < 4 && took >= 5*time.Second; tries++ {
			start := time.Now()
			value[string](tb, `import("/markdown.js").then((m) => String(m.markdown(`+quote(in)+`).textContent.length))`)
			took = time.Since(start)
		}
		require.Less(t, took, 5*time.Second, name)
	}
}

func TestTerminalText(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m\n":           "red\n",
		"10%\r50%\r100%\ndone\r\n":       "100%\ndone\n",
		"\x1b]0;title\aok":               "ok",
		"a\u202eb":                       "a\ufffdb",
		"tab\there":                      "tab\there",
		strings.Repeat("x", 200_000):     strings.Repeat("x", 200_000),
		strings.Repeat("\n", 2000) + "x": strings.Repeat("\n", 2000) + "x",
	} {
		got := value[string](tb, `import("/format.js").then((m) => m.terminalText(`+quote(in)+`))`)
		require.Equal(t, want, got)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	for in, want := range map[string]string{
		"0": "0.0 s", "400": "0.4 s", "3100": "3.1 s", "59940": "59.9 s", "59960": "1 m 0 s", "102000": "1 m 42 s",
		"3599600": "1 h 0 m", "11520000": "3 h 12 m", "NaN": "", "-5": "",
	} {
		require.Equal(t, want, value[string](tb, `import("/format.js").then((m) => m.duration(`+in+`))`), in)
	}
}
