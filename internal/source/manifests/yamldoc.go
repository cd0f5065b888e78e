package manifests

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// YAML forbids "---" and "..." at the beginning of a line inside any scalar, block scalars included, so the markers
// can be found without parsing. Every line break of the YAML parser counts as one (LF, CRLF, CR, NEL, LS, PS): a
// marker missed here would hide the documents after it, because the parser reads one document and ignores the rest.

// Doc is one document of a stream.
type Doc struct {
	// Line is the line of the stream, counted from 1, at which Text begins: the line of its "---", or its first line
	// of content.
	Line int
	// Text is the document with its "---" and directives, without "...". It shares memory with the stream.
	Text []byte
}

var bom = []byte("\xef\xbb\xbf")

// Split returns the documents of the stream in order, including empty ones (between two consecutive markers, or after
// a marker at the end). Blank lines and comments before the first marker are not a document.
func Split(stream []byte) []Doc {
	stream = bytes.TrimPrefix(fromUTF16(stream), bom)
	var (
		docs []Doc
		open bool // a document has begun
		body bool // the document is past its directives
		doc  Doc
		from int // where doc.Text begins
	)
	end := func(at int) {
		if open {
			doc.Text = stream[from:at]
			docs = append(docs, doc)
		}
		open, body = false, false
	}
	begin := func(line, at int) { open, doc, from = true, Doc{Line: line}, at }

	for line, at := 1, 0; at < len(stream); line++ {
		text, next := cutLine(stream, at)
		switch {
		case marker(text, "---"):
			if body {
				end(at)
			}
			if !open { // otherwise the directives before this marker began the document
				begin(line, at)
			}
			body = true
		case marker(text, "..."):
			end(at)
		case open && body, blank(text):
		case text[0] == '%' && !body:
			if !open {
				begin(line, at)
			}
		case !open:
			begin(line, at)
			body = true
		default: // content after directives without a marker: left to the parser
			body = true
		}
		at = next
	}
	end(len(stream))
	return docs
}

// fromUTF16 converts the stream to UTF-8 if it begins with a UTF-16 byte order mark, and otherwise returns it
// unchanged.
func fromUTF16(b []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		order = binary.BigEndian
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		order = binary.LittleEndian
	default:
		return b
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 2; i+1 < len(b); i += 2 {
		units = append(units, order.Uint16(b[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// marker reports whether the line is the marker, alone or followed by white space.
func marker(line []byte, m string) bool {
	if !bytes.HasPrefix(line, []byte(m)) {
		return false
	}
	return len(line) == len(m) || line[len(m)] == ' ' || line[len(m)] == '\t'
}

// blank reports whether the line has no content: nothing but white space or a comment.
func blank(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) == 0 || line[0] == '#'
}

// cutLine returns the line that begins at i, without its line break, and the index of the next line.
func cutLine(b []byte, i int) (line []byte, next int) {
	for j := i; j < len(b); j++ {
		switch b[j] {
		case '\n':
			return b[i:j], j + 1
		case '\r':
			if j+1 < len(b) && b[j+1] == '\n' {
				return b[i:j], j + 2
			}
			return b[i:j], j + 1
		case 0xc2: // NEL is C2 85
			if j+1 < len(b) && b[j+1] == 0x85 {
				return b[i:j], j + 2
			}
		case 0xe2: // LS and PS are E2 80 A8 and E2 80 A9
			if j+2 < len(b) && b[j+1] == 0x80 && (b[j+2] == 0xa8 || b[j+2] == 0xa9) {
				return b[i:j], j + 3
			}
		}
	}
	return b[i:], len(b)
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
// ignores the lines after it. A value that begins with a letter is a mapping or a scalar in block style; the parser
// reads those to the end.
func oneDocument(text []byte) error {
	begin := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("---")), " \t\r\n")
	if len(begin) > 0 && unicode.IsLetter(rune(begin[0])) {
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
