package shadowdiff

import "unicode/utf8"

// Mark finds the difference between two texts: old is prefix + oldMid + suffix, new is prefix + newMid + suffix. The middles are
// whole words: for 10.0.0.11 and 10.0.0.12 they are 11 and 12.
func Mark(old, new string) (prefix, oldMid, newMid, suffix string) {
	i := 0
	for i < min(len(old), len(new)) && old[i] == new[i] {
		i++
	}
	// Back to the beginning of a word, if it continues in one of the texts, and to the beginning of a rune.
	for i > 0 && (inWord(old, i) || inWord(new, i) || !startsRune(old, i) || !startsRune(new, i)) {
		i--
	}
	j := 0
	for j < min(len(old), len(new))-i && old[len(old)-1-j] == new[len(new)-1-j] {
		j++
	}
	for j > 0 && (inWord(old, len(old)-j) || inWord(new, len(new)-j) || !startsRune(old, len(old)-j)) {
		j--
	}
	return old[:i], old[i : len(old)-j], new[i : len(new)-j], old[len(old)-j:]
}

// inWord reports whether a word continues at s[i].
func inWord(s string, i int) bool {
	return i > 0 && i < len(s) && isWord(s[i-1]) && isWord(s[i])
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func startsRune(s string, i int) bool { return i >= len(s) || utf8.RuneStart(s[i]) }
