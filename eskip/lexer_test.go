package eskip_test

import (
	"math"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestLiteralsHaveTheseValues(t *testing.T) {
	for _, c := range []struct {
		literal string
		want    interface{}
	}{
		// numbers
		{`1`, 1.0}, {`007`, 7.0}, {`3.14`, 3.14}, {`.3`, 0.3}, {`-42`, -42.0}, {`-.5`, -0.5}, {`0`, 0.0}, {`511`, 511.0},
		{`512`, 512.0}, {`999`, 999.0}, {`1000`, 1000.0}, {`0.1`, 0.1}, {`123456789012345678901234567890`, 123456789012345678901234567890.0},
		{strings.Repeat("9", 400), math.Inf(1)}, {`-` + strings.Repeat("9", 400), math.Inf(-1)},

		// strings: both kinds have the same escapes
		{`""`, ""}, {"``", ""}, {`"a b"`, "a b"}, {`"\a\b\f\n\r\t\v"`, "\a\b\f\n\r\t\v"}, {"`\\a\\b\\f\\n\\r\\t\\v`", "\a\b\f\n\r\t\v"},
		{`"\""`, `"`}, {"`\\``", "`"}, {`"\\"`, `\`}, {"`\\\\`", `\`}, {"\"\\`\"", "\\`"}, {"`\\\"`", `\"`},
		{`"\x41\u1234\0\'\/"`, `\x41\u1234\0\'\/`}, {"\"a\nb\"", "a\nb"}, {`"/"`, "/"}, {`"\\n"`, `\n`}, {`"// no comment"`, "// no comment"},
		{`"é"`, "é"}, {"\"\xff\"", "\xff"}, {"\"\\\xff\"", "\\\xff"},

		// regular expressions
		{`/a/`, "a"}, {`/a\/b/`, "a/b"}, {`/\\/`, `\`}, {`/\n/`, `\n`}, {`/\./`, `\.`}, {`/\"/`, `\"`}, {"/a\nb/", "a\nb"}, {`/é/`, "é"},
		{`/[/]/`, "[/]"}, {`/[\/]/`, "[/]"}, {`/[\\]/`, `[\]`}, {`/[\]]/`, `[\]]`}, {`/[\[]/`, `[\[]`}, {`/["]/`, `["]`},
		{`/[[:upper:]]/`, "[[:upper:]]"}, {`/[]/`, "[]"}, {`/]/`, "]"}, {`/\[/`, `\[`}, {`/[[/]/`, "[[/]"}, {`/* c */`, "* c *"},
	} {
		filters, err := eskip.ParseFilters("f(" + c.literal + ")")
		if err != nil {
			t.Errorf("%s: %v", c.literal, err)
			continue
		}
		if got := filters[0].Args; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: got %#v, want %#v", c.literal, got, c.want)
		}
	}
}

func TestMinusZeroKeepsItsSign(t *testing.T) {
	if v := eskip.MustParseFilters("f(-0)")[0].Args[0].(float64); v != 0 || !math.Signbit(v) {
		t.Errorf("got %v, want -0", v)
	}
}

func TestTheseAreNoLiterals(t *testing.T) {
	for _, literal := range []string{
		"+1", "1.", ".", "1e3", "--1", "1.2.3", "-", "-a", "1_000", "0x10", "'a'", `"a`, "`a", `"\"`, "/a", `/\/`, "/[/", "//", "/", "é", "true",
	} {
		if filters, err := eskip.ParseFilters("f(" + literal + ")"); err == nil {
			t.Errorf("%s: got %v, want an error", literal, filters)
		}
	}
}

func TestWhiteSpaceAndCommentsSeparateTokens(t *testing.T) {
	const want = `r: Foo(1, 2) && Bar() -> f("a") -> <random, "http://a", "http://b">;`
	compact := `r:Foo(1,2)&&Bar()->f("a")-><random,"http://a","http://b">;`
	if got := eskip.String(eskip.MustParse(compact)...); got != want {
		t.Errorf("without white space: got %s, want %s", got, want)
	}
	for _, space := range []string{" ", "\n", "\t", "\v", "\f", "\r", "\x85", "\xa0", "// comment ; \" /\n", "//\n//\n"} {
		var b strings.Builder
		for _, token := range []string{
			"r", ":", "Foo", "(", "1", ",", "2", ")", "&&", "Bar", "(", ")", "->", "f", "(", `"a"`, ")", "->", "<", "random", ",",
			`"http://a"`, ",", `"http://b"`, ">", ";", "",
		} {
			b.WriteString(space + token)
		}
		routes, err := eskip.Parse(b.String())
		if err != nil {
			t.Errorf("%q between tokens: %v", space, err)
			continue
		}
		if got := eskip.String(routes...); got != want {
			t.Errorf("%q between tokens: got %s, want %s", space, got, want)
		}
	}
}

func TestTheseAreNoWhiteSpace(t *testing.T) {
	for _, s := range []string{"\u00a0", "\u0085", "\u2028", "\x00", "\ufeff", "/* */ "} {
		if _, err := eskip.Parse("r: * ->" + s + "<shunt>"); err == nil {
			t.Errorf("%q was taken for white space", s)
		}
	}
}

func TestCommentMayEndTheInput(t *testing.T) {
	for _, s := range []string{"r: * -> <shunt> // end", "r: * -> <shunt>; //", "// only\n//", "//"} {
		if _, err := eskip.Parse(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestBackendsOfOneTokenAreCaseSensitiveAndWhole(t *testing.T) {
	for _, s := range []string{"< shunt >", "<shunt >", "<Shunt>", "<SHUNT>", "<loopback >", "<dynamic", "<lb>"} {
		if _, err := eskip.Parse("* -> " + s); err == nil {
			t.Errorf("%s was taken for a backend", s)
		}
	}
}

func TestValidIDIsASymbol(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "_": true, "Z_9": true, "kube_ns__name": true, "": false, "9a": false, "a-b": false, "a.b": false, "é": false, "a b": false, "a:": false,
	} {
		if got := eskip.ValidID(s); got != want {
			t.Errorf("ValidID(%q) is %t, want %t", s, got, want)
		}
		if _, err := eskip.Parse(s + ": * -> <shunt>"); (err == nil) != want {
			t.Errorf("ValidID(%q) is %t, but Parse says %v", s, want, err)
		}
	}
}
