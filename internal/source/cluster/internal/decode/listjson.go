package decode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// walkJSON walks a list without decoding its items. Names match regardless of case, as in encoding/json. [head.check] decides whether it is
// a list of the right kind.
func (w *Walker) walkJSON(head *head, item func([]byte)) error {
	head.noItems = true
	l := &listJSON{text: json.NewDecoder(w.in), head: head, item: item}
	err := l.list()
	if err == nil {
		if _, err = l.text.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = cmp.Or(err, errors.New("something follows the list"))
	}
	return fmt.Errorf("JSON, byte %d: %w", l.text.InputOffset(), unexpected(err))
}

// listJSON is a list that is being read.
type listJSON struct {
	text *json.Decoder
	head *head
	item func([]byte)
	raw  json.RawMessage // the last item, or what is not read of the list
}

// list reads the list object.
func (l *listJSON) list() error {
	if t, err := l.text.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("want an object"))
	}
	for l.text.More() {
		if err := l.member(); err != nil {
			return err
		}
	}
	_, err := l.text.Token() // the closing bracket
	return err
}

// member reads a member of the list object.
func (l *listJSON) member() error {
	name, err := l.text.Token()
	if err != nil {
		return err
	}
	key, _ := name.(string)
	switch {
	case strings.EqualFold(key, "items"):
		return l.items()
	case strings.EqualFold(key, "metadata"):
		if l.head.hasMeta {
			return errors.New("metadata stands there twice")
		}
		var meta struct{ ResourceVersion, Continue string }
		err := l.text.Decode(&meta)
		l.head.hasMeta = true
		l.head.resourceVersion, l.head.more = meta.ResourceVersion, meta.Continue
		return err
	case strings.EqualFold(key, "kind"):
		return l.text.Decode(&l.head.kind)
	case strings.EqualFold(key, "apiVersion"):
		return l.text.Decode(&l.head.apiVersion)
	}
	return l.text.Decode(&l.raw)
}

// items reads the items, one at a time; null stands for none.
func (l *listJSON) items() error {
	if !l.head.noItems {
		return errors.New("items stand there twice")
	}
	switch t, err := l.text.Token(); {
	case err != nil || t == nil:
		return err
	case t != json.Delim('['):
		return errors.New("items are not an array")
	}
	l.head.noItems = false
	for l.text.More() {
		if err := l.text.Decode(&l.raw); err != nil {
			return err
		}
		l.item(l.raw)
	}
	_, err := l.text.Token() // the closing bracket
	return err
}
