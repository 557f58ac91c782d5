package policy

import "strings"

// EndComments ends comments where shells end them: with their line. The parser takes
// a backslash at a comment's end for one that joins two lines, as it does elsewhere,
// and would read the next command as words of the one before. All that may be a
// comment counts as one; the second result says whether anything did.
func EndComments(text string) (string, bool) {
	if !strings.Contains(text, "\\\n") || !strings.Contains(text, "#") {
		return text, false
	}
	lines := strings.Split(text, "\n")
	found := false
	for i, l := range lines[:len(lines)-1] {
		if strings.HasSuffix(l, "\\") && mayComment(l) {
			lines[i], found = l[:len(l)-1]+" ", true
		}
	}
	return strings.Join(lines, "\n"), found
}

// mayComment reports whether a comment may begin in a line.
func mayComment(line string) bool {
	for i := 0; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || strings.IndexByte(" \t;&|()<>`", line[i-1]) >= 0) {
			return true
		}
	}
	return false
}

// joined is what is said where a comment ends in a backslash.
const joined = "a line that may be a comment ends in a backslash, which shells do not take for a line that goes on"
