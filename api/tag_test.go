package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

var (
	digest = table.Digest{1, 2, 3, 31: 0xff}
	hex    = digest.String()
)

// spellings are texts between the quotes of an ETag, and their meaning; nil if no route server writes them.
var spellings = map[string]*api.Tag{
	hex:                                    {Digest: digest},
	hex + "+gzip":                          {Digest: digest, Encoding: api.Gzip},
	hex + "+zstd":                          {Digest: digest, Encoding: api.Zstd},
	hex + ".12":                            {Digest: digest, Revision: 12},
	hex + "~3":                             {Digest: digest, Rotation: 3},
	hex + ".12~3+gzip":                     {Digest: digest, Revision: 12, Rotation: 3, Encoding: api.Gzip},
	hex + ".18446744073709551615~7+zstd":   {Digest: digest, Revision: 1<<64 - 1, Rotation: 7, Encoding: api.Zstd},
	hex + ".1~4294967295":                  {Digest: digest, Revision: 1, Rotation: 1<<32 - 1},
	hex + ".18446744073709551616":          nil,
	hex + ".99999999999999999999999999":    nil,
	hex + "~4294967296":                    nil,
	hex + ".012":                           nil,
	hex + ".0":                             nil,
	hex + ".":                              nil,
	hex + ".-1":                            nil,
	hex + ".+1":                            nil,
	hex + "~":                              nil,
	hex + "~0":                             nil,
	hex + "~01":                            nil,
	hex + "~1~2":                           nil,
	hex + "~1.2":                           nil,
	hex + "+br":                            nil,
	hex + "+identity":                      nil,
	hex + "+gzip+gzip":                     nil,
	hex + "+gzip+zstd":                     nil,
	hex + "+gzip.1":                        nil,
	hex + "-gzip":                          nil,
	hex + "12":                             nil,
	hex + " ":                              nil,
	hex[1:]:                                nil,
	"A" + hex[1:]:                          nil,
	"v1":                                   nil,
	"":                                     nil,
	strings.Repeat("0", 300):               nil,
	hex + "." + strings.Repeat("1", 300):   nil,
	strings.Repeat("\x00", len(hex)):       nil,
	strings.Repeat("\xc3\xa9", len(hex)/2): nil,
	hex + ".1\xd9\xa1":                     nil,
	hex + ".1_000":                         nil,
	hex + ".0x1":                           nil,
	hex + ".1e3":                           nil,
}

func TestTagHasOneSpelling(t *testing.T) {
	for opaque, want := range spellings {
		got, ok := api.ParseTag(opaque)
		if ok != (want != nil) {
			t.Errorf("ParseTag(%q) = %+v, %t", opaque, got, ok)
			continue
		}
		if !ok {
			if got != (api.Tag{}) {
				t.Errorf("ParseTag(%q) is refused with %+v", opaque, got)
			}
			continue
		}
		if got != *want {
			t.Errorf("ParseTag(%q) = %#v, want %#v", opaque, got, *want)
		}
		if text := got.String(); text != `"`+opaque+`"` {
			t.Errorf("%q is printed as %s", opaque, text)
		}
	}
}

// FuzzTag: a printed tag is read back unchanged, and a read tag is printed unchanged.
func FuzzTag(f *testing.F) {
	for opaque, want := range spellings {
		if want == nil {
			want = &api.Tag{}
		}
		f.Add(opaque, want.Digest[:], want.Revision, want.Rotation, uint8(want.Encoding))
	}
	f.Fuzz(func(t *testing.T, opaque string, hash []byte, revision uint64, rotation uint32, encoding uint8) {
		want := api.Tag{Revision: revision, Rotation: rotation, Encoding: api.Encoding(encoding % uint8(api.Encodings))}
		copy(want.Digest[:], hash)
		text := want.String()
		if e := api.ParseEntity(text); !e.Known || e.Tag != want || e.Text != text {
			t.Errorf("%+v is printed as %s and read as %+v", want, text, e)
		}
		if got := api.ParseTags([]string{text}); len(got.List) != 1 || got.List[0] != (api.NamedTag{Tag: want}) {
			t.Errorf("%+v is printed as %s and read as %+v", want, text, got)
		}
		if got, ok := api.ParseTag(opaque); ok && got.String() != `"`+opaque+`"` {
			t.Errorf("%q is read as %+v and printed as %s", opaque, got, got)
		}
	})
}

func TestParseEntity(t *testing.T) {
	for s, kept := range map[string]bool{
		`"v1"`:                               true,
		`""`:                                 true,
		`W/"v1"`:                             true,
		`"` + strings.Repeat("x", 254) + `"`: true,
		`"` + strings.Repeat("x", 255) + `"`: false,
		hex:                                  false,
		`"`:                                  false,
		`W/`:                                 false,
		`"a" , "b"`:                          false,
		`"a"b"`:                              false,
		"\"a\r\nX: b\"":                      false,
		"\"\x7f\"":                           false,
		"\"\xe4\"":                           false,
		`" "`:                                false,
		`w/"a"`:                              false,
		``:                                   false,
		`*`:                                  false,
	} {
		e := api.ParseEntity(s)
		if e.Known || kept != (e.Text == s && s != "") || !kept && e != (api.Entity{}) {
			t.Errorf("ParseEntity(%q) = %+v, kept %t", s, e, kept)
		}
	}
	for opaque, want := range spellings {
		for _, prefix := range []string{"", "W/"} {
			e := api.ParseEntity(prefix + `"` + opaque + `"`)
			if e.Known != (want != nil) || want != nil && e.Tag != *want {
				t.Errorf("ParseEntity(%s%q) = %+v, want %+v", prefix, opaque, e, want)
			}
		}
	}
}

// FuzzEntity: the input of a hostile server or client is kept unchanged or not at all.
func FuzzEntity(f *testing.F) {
	for _, s := range []string{
		`"` + hex + `"`, `"` + hex + `.12~3+gzip"`, `W/"` + hex + `+zstd"`, `"v1"`, `""`, `"`, ``, `*`, `W/`, `"a", W/"` + hex + `"`, `,,`, "\"\xff\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := api.ParseEntity(s)
		if e.Text != "" && e.Text != s {
			t.Errorf("%q is kept as %q", s, e.Text)
		}
		if e.Known && strings.TrimPrefix(e.Text, "W/") != e.Tag.String() {
			t.Errorf("%q gives %+v", s, e)
		}
		list := api.ParseTags([]string{s})
		for _, named := range list.List {
			if !strings.Contains(s, named.Tag.String()) {
				t.Errorf("%q names %s", s, named.Tag)
			}
		}
		if e.Known && (len(list.List) != 1 || list.List[0].Tag != e.Tag) {
			t.Errorf("%q is %+v to a client and %+v to a server", s, e, list)
		}
	})
}

func TestParseTags(t *testing.T) {
	a, b := api.Tag{Digest: digest}, api.Tag{Digest: digest, Revision: 7, Encoding: api.Gzip}
	for _, c := range []struct {
		values []string
		want   api.Tags
	}{
		{nil, api.Tags{}},
		{[]string{""}, api.Tags{}},
		{[]string{"*"}, api.Tags{Any: true}},
		{[]string{a.String() + ", " + b.String()}, api.Tags{List: []api.NamedTag{{Tag: a}, {Tag: b}}}},
		{[]string{"\t,W/" + a.String() + " ,,", b.String()}, api.Tags{List: []api.NamedTag{{Tag: a, Weak: true}, {Tag: b}}}},
		{[]string{`"other", ` + b.String()}, api.Tags{List: []api.NamedTag{{Tag: b}}}},
		{[]string{a.String() + ` x, ` + b.String(), b.String()}, api.Tags{List: []api.NamedTag{{Tag: a}, {Tag: b}}}},
		{[]string{a.String() + `, *`}, api.Tags{Any: true, List: []api.NamedTag{{Tag: a}}}},
		{[]string{hex, `"` + hex}, api.Tags{}},
	} {
		if diff := cmp.Diff(c.want, api.ParseTags(c.values)); diff != "" {
			t.Errorf("ParseTags(%q): %s", c.values, diff)
		}
	}
}

// TestNamesOfHeadersIndexHeaders: a name in another form would never be found.
func TestNamesOfHeadersIndexHeaders(t *testing.T) {
	for _, name := range []string{
		api.HeaderAcceptIM, api.HeaderCount, api.HeaderDeltaBase, api.HeaderETag, api.HeaderIfNoneMatch, api.HeaderIM,
		api.HeaderLastEventID, api.HeaderRevision, api.HeaderSourceRead, api.HeaderTableState,
	} {
		if canonical := http.CanonicalHeaderKey(name); canonical != name {
			t.Errorf("%s: net/http has it as %s", name, canonical)
		}
	}
}

func TestNamesOfEncodings(t *testing.T) {
	var got []string
	for e := range api.Encodings {
		got = append(got, e.String())
	}
	if diff := cmp.Diff([]string{"identity", "gzip", "zstd"}, got); diff != "" {
		t.Error(diff)
	}
	if got := api.Encodings.String(); got != "encoding 3" {
		t.Error(got)
	}
}
