package sandbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/mask"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                    "",
		"a\r\nb\r\n":                          "a\nb\n",
		"10%\r20%\r\n":                        "20%\n",
		"long line\rab":                       "abng line",
		"long line\r\x1b[Kab":                 "ab",
		"long line\r\x1b[2Kab":                "ab",
		"rm x\b \b\b \b\n":                    "rm  \n"[:2] + "  \n",
		"abc\x1b[2D\x1b[Px":                   "ax",
		"abc\x1b[1Gx\x1b[99Cy":                "xbcy",
		"\x1b[1;31mred\x1b[0m":                "red",
		"\x1b]0;title\x07text\x1b]0;t\x1b\\!": "text!",
		"\x1b(Btext\x1b=\x1b[?2004h":          "text",
		"a\x00b\x07c\u009bd":                  "a␀bcd",
		"\xffé世":                              "\ufffdé世",
		"x\x1b[99999999999999999999Cy":        "xy",
		"\x1b[\n":                             "[\n",
	} {
		require.Equal(t, want, screen(in), "%q", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\x1b", "[", "K", "2", "D", "C", "P", "G", "\b", "\r", "\n", "]", "\x07", "é", "\xff", ";"}), 0, 60).Draw(t, "text")
		text := strings.Join(s, "")
		require.NotContains(t, screen(text), "\x1b")
		require.LessOrEqual(t, partial(text), len(text))
	})
}

func TestPartial(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"": 0, "abc": 0, "a\x1b": 1, "a\x1b[": 2, "a\x1b[1;3": 5, "a\x1b[1m": 0, "a\x1b[1mb": 0, "\x1b]0;ti": 6, "\x1b]0;ti\x07": 0, "\x1b]0;t\x1b\\": 0, "\x1b(": 2, "\x1b(B": 0,
		"\x1b]" + strings.Repeat("x", 100): 0,
	} {
		require.Equal(t, want, partial(in), "%q", in)
	}
}

// A secret that only shows once it is drawn does not reach the model.
func TestOnScreenHidesSecrets(t *testing.T) {
	t.Parallel()
	o := Output{Stdout: "hunt\x1b[1mer2hunter2\r\n", StdoutBytes: 100}
	cut := int64(len(o.Stdout))
	o.onScreen(mask.New("hunter2hunter2"))
	require.Equal(t, strings.Repeat("*", 14)+"\n", o.Stdout)
	require.Equal(t, 100-cut+15, o.StdoutBytes, "what is left out stays left out")
}
