package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// YAML forbids "---" and "..." at the beginning of a line inside any scalar, block scalars included, so the markers
// can be found without parsing.

// otherBreaks are the line breaks of YAML that no editor writes. [Split] does not split at them, and a document that has
// another one behind such a break is an error.
const otherBreaks = "\r\u0085\u2028\u2029"

// Doc is one document of a stream.
type Doc struct {
	// Line is the line of the stream, counted from 1, at which Text begins: the line of its "---", or its first line
	// of content.
	Line int
	// Text is the document with its "---", without "...". It shares memory with the stream.
	Text []byte
}

// Split returns the documents of the stream in order, including empty ones (between two consecutive markers, or after
// a marker at the end). Blank lines, comments and directives before the first marker are not a document.
func Split(stream []byte) (docs []Doc) {
	stream = bytes.TrimPrefix(stream, []byte("\xef\xbb\xbf")) // a byte order mark
	from, first := -1, 0                                      // where the document begins, and its line; -1 for none
	end := func(at int) {
		if from >= 0 {
			docs = append(docs, Doc{first, stream[from:at]})
		}
		from = -1
	}
	at, number := 0, 0
	for line := range bytes.Lines(stream) {
		number++
		switch text := bytes.TrimRight(line, "\r\n"); {
		case marker(text, "---"):
			end(at)
			from, first = at, number
		case marker(text, "..."):
			end(at)
		case from < 0 && !blank(text):
			from, first = at, number
		}
		at += len(line)
	}
	end(len(stream))
	return docs
}

// marker reports whether the line is the marker, alone or followed by white space.
func marker(line []byte, m string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(m))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// blank reports whether a line outside of documents has no content: nothing but white space, a comment or a directive.
func blank(line []byte) bool {
	text := bytes.TrimLeft(line, " \t")
	return (len(text) == 0 || text[0] == '#' || line[0] == '%') && !bytes.ContainsAny(text, otherBreaks)
}

// ToJSON converts the document to JSON by the rules of Kubernetes tools (YAML 1.1: an unquoted yes is a boolean). It
// returns a document that is already JSON unchanged, so that numbers and escapes keep their form. An empty document
// becomes "null". The last value of a duplicate key counts. Line numbers in errors are those of the stream.
func ToJSON(d Doc) ([]byte, error) { return convert(d, yaml.YAMLToJSON) }

// ToJSONStrict is [ToJSON], but rejects a key that occurs twice in one mapping, which YAML forbids and which hides
// one of the two values.
func ToJSONStrict(d Doc) ([]byte, error) { return convert(d, yaml.YAMLToJSONStrict) }

func convert(d Doc, parse func([]byte) ([]byte, error)) ([]byte, error) {
	if json.Valid(d.Text) {
		return d.Text, nil
	}
	whole := func(text []byte) ([]byte, error) {
		out, err := parse(text)
		if err == nil {
			err = oneDocument(text)
		}
		return out, err
	}
	out, err := whole(d.Text)
	if err != nil {
		return nil, atLine(d, err, whole)
	}
	return out, nil
}

// oneDocument returns an error if anything follows the value of a document: the parser stops after "{a: 1}" and
// ignores the lines after it, and it knows line breaks that [Split] does not know. A value that begins with a
// letter, and has no such line break, is a mapping or a scalar in block style; the parser reads those to the end.
func oneDocument(text []byte) error {
	begin := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("---")), " \t\r\n")
	if len(begin) > 0 && begin[0] < unicode.MaxASCII && unicode.IsLetter(rune(begin[0])) && !bytes.ContainsAny(text, otherBreaks) {
		return nil
	}
	dec := goyaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := dec.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch err := dec.Decode(&value); {
	case err == nil:
		return errors.New("yaml: something follows the value of the document")
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// atLine makes the parser fail again with as many empty lines before the document as the stream has, so that its
// error names the line in the stream. The returned error is one line of text.
func atLine(d Doc, err error, parse func([]byte) ([]byte, error)) error {
	padded := append(bytes.Repeat([]byte("\n"), d.Line-1), d.Text...)
	if _, again := parse(padded); again != nil {
		err = again
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	return errors.New(strings.TrimPrefix(text, "error converting YAML to JSON: "))
}
