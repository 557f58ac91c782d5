package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for the page.
const patience = 60 * time.Second

// chromium finds the browser.
func chromium() (string, error) {
	for _, name := range []string{os.Getenv("COUNTERSIGN_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("needs Chromium: install the package chromium, or set COUNTERSIGN_CHROMIUM")
}

// chrome starts the one Chromium that all tests share.
var chrome = sync.OnceValues(func() (context.Context, error) {
	path, err := chromium()
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*patience),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-GB"),
		chromedp.WindowSize(1280, 860))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	stopChrome = func() {
		cancel()
		cancelAlloc()
	}
	return ctx, chromedp.Do(ctx)
})

var stopChrome = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopChrome()
	if builtDir != "" {
		_ = os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// browser is a profile of its own: its tabs share nothing with other tests.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := chromium(); err != nil {
		t.Skip(err)
	}
	shared, err := chrome()
	require.NoError(t, err, "starting Chromium")
	ctx, cancel := chromedp.NewContext(shared, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "opening a profile")
	return &browser{t: t, ctx: ctx}
}

// tab is one tab; what its page complains about fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected func(problem string) bool
}

// open opens a tab at the page with the token, as the named person.
func (b *browser) open(s *server, as, route string) *tab {
	b.t.Helper()
	tb := b.blank()
	query := ""
	if as != "" {
		query = "?as=" + as
	}
	fragment := "#token=" + s.token
	if route != "" {
		fragment += "&thread=" + route
	}
	tb.run(chromedp.Navigate(s.url + "/" + query + fragment))
	tb.until("the page is there", `document.querySelector("#composer") !== null && document.querySelector(".connection.open") !== null`)
	return tb
}

func (b *browser) blank() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	tb := &tab{t: b.t, ctx: ctx}
	require.NoError(b.t, chromedp.Do(ctx), "opening a tab")
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" {
				tb.problem(fmt.Sprintf("%s: %s", m.Type, m.Text))
			}
		}
	}()
	b.t.Cleanup(func() {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, p := range tb.problems {
			b.t.Error("the page complained: " + p)
		}
	})
	return tb
}

func (tb *tab) problem(text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.expected == nil || !tb.expected(text) {
		tb.problems = append(tb.problems, text)
	}
}

// expect says which complaints belong to the test.
func (tb *tab) expect(words ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expected = func(problem string) bool {
		for _, w := range words {
			if strings.Contains(problem, w) {
				return true
			}
		}
		return false
	}
}

func (tb *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, 2*patience)
	defer cancel()
	require.NoError(tb.t, chromedp.Do(ctx, actions...))
}

// eval runs a script for what it does.
func (tb *tab) eval(script string) {
	tb.t.Helper()
	tb.run(chromedp.Evaluate[chromedp.Void](script))
}

// value is what an expression, or the promise that it gives, comes to.
func value[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, 4*patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(tb.t, err, expression)
	return v
}

func (tb *tab) text(expression string) string {
	tb.t.Helper()
	return value[string](tb, "String("+expression+")")
}

// until waits for an expression to be true.
func (tb *tab) until(what, expression string) {
	tb.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithTimeout(tb.ctx, patience)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		cancel()
		if err == nil && got {
			return
		}
		pause(tb.t, 25*time.Millisecond)
	}
	require.Fail(tb.t, "waited in vain: "+what, "%s\n\npage:\n%s", expression, tb.text("document.body.innerText"))
}

// shows waits until a text is to be seen in the element that selector names.
func (tb *tab) shows(selector, text string) {
	tb.t.Helper()
	tb.until(selector+" shows "+text, fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))", quote(selector), quote(text)))
}

// lacks waits until no element that selector names holds the text.
func (tb *tab) lacks(selector, text string) {
	tb.t.Helper()
	tb.until(selector+" lacks "+text, fmt.Sprintf("![...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))", quote(selector), quote(text)))
}

// press presses keys one after the other.
func (tb *tab) press(keys ...string) {
	tb.t.Helper()
	for _, k := range keys {
		if k == kb.Enter {
			tb.run(enter)
		} else {
			tb.run(chromedp.KeyEvent(k))
		}
	}
}

// enter is the key as a browser gets it from a keyboard: its character comes only
// if the page lets it. chromedp's own sends it in any case.
func enter(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	for _, p := range []input.DispatchKeyEventParams{{Type: input.DispatchKeyEventTypeKeyDown, Text: "\r"}, {Type: input.DispatchKeyEventTypeKeyUp}} {
		p.Key, p.Code, p.WindowsVirtualKeyCode = "Enter", "Enter", 13
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
			return chromedp.Void{}, err
		}
	}
	return chromedp.Void{}, nil
}

func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.run(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// settled waits until what selector names is there and has not moved for a while:
// in the moment after a card moved the page takes no click on an approval.
func (tb *tab) settled(selector string) {
	tb.t.Helper()
	tb.until(selector+" is there", `document.querySelector(`+quote(selector)+`)`)
	value[bool](tb, `new Promise((done) => {
		let top, since = performance.now();
		(function look() {
			const now = document.querySelector(`+quote(selector)+`)?.getBoundingClientRect().top;
			if (now !== top) [top, since] = [now, performance.now()];
			if (performance.now() - since > 700) return done(true);
			setTimeout(look, 50);
		})();
	})`)
}

func (tb *tab) scheme(dark bool) {
	tb.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	_, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: value}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	require.NoError(tb.t, err)
}

// shot writes a picture of the tab when COUNTERSIGN_SCREENSHOTS names a directory.
func (tb *tab) shot(name string) {
	tb.t.Helper()
	dir := os.Getenv("COUNTERSIGN_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
	require.NoError(tb.t, err)
	require.NoError(tb.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// pause is the one place that lets time pass, for polling.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func ptr[T any](v T) *T { return &v }

// typed types into a field as a person would; a trailing Enter is pressed.
func typed(selector, text string) chromedp.Action[chromedp.Void] {
	keys, send := strings.CutSuffix(text, kb.Enter)
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		v, err := chromedp.SendKeys(chromedp.CSS(selector), keys)(ctx, t)
		if err != nil || !send {
			return v, err
		}
		return enter(ctx, t)
	}
}
