package kube

// Texts sets the strings of an object, as parts of one string: an object has a dozen short ones, and each would be an allocation of its
// own, rounded up and with garbage around it. The zero value is ready for an object. It is not safe for concurrent use.
//
// The strings are set by [Texts.Done], and not before. An abandoned object needs no call: [Texts.Begin] discards its strings.
type Texts struct {
	bytes  []byte
	places []place
	shared map[string]string
}

// place is where a part of the bytes belongs, or a shared string if begin is negative.
type place struct {
	at         *string
	shared     string
	begin, end int
}

// Limits of what Texts keep from one object to the next.
const (
	maxShared     = 4096    // strings in the table of shared ones, which is emptied when it is full
	maxSharedSize = 64      // bytes of one
	maxTextsSize  = 1 << 16 // bytes of an object
)

// Begin prepares for the next object.
func (t *Texts) Begin() {
	clear(t.places) // they would keep the object
	t.places = t.places[:0]
	if t.bytes = t.bytes[:0]; cap(t.bytes) > maxTextsSize {
		t.bytes = nil
	}
}

// Set makes *at the value. It copies the value.
func (t *Texts) Set(at *string, value []byte) {
	begin := len(t.bytes)
	t.bytes = append(t.bytes, value...)
	t.places = append(t.places, place{at: at, begin: begin, end: len(t.bytes)})
}

// move makes *at a part of the one string, with the value that it has.
func (t *Texts) move(at *string) {
	begin := len(t.bytes)
	t.bytes = append(t.bytes, *at...)
	t.places = append(t.places, place{at: at, begin: begin, end: len(t.bytes)})
}

func (t *Texts) moveAll(list []string) {
	for i := range list {
		t.move(&list[i])
	}
}

// reshare is Share with the value that *at has.
func (t *Texts) reshare(at *string) { t.Share(at, []byte(*at)) }

// Share makes *at the value, like Set, for a value that many objects have, such as a key or a zone: all of them get one string.
func (t *Texts) Share(at *string, value []byte) {
	if len(value) > maxSharedSize {
		t.Set(at, value)
		return
	}
	s, known := t.shared[string(value)]
	if !known {
		if t.shared == nil || len(t.shared) >= maxShared {
			t.shared = make(map[string]string)
		}
		s = string(value)
		t.shared[s] = s
	}
	t.places = append(t.places, place{at: at, shared: s, begin: -1})
}

// Done sets the strings. A string that was set several times has the last value.
func (t *Texts) Done() {
	all := string(t.bytes)
	for _, p := range t.places {
		if p.begin < 0 {
			*p.at = p.shared
		} else {
			*p.at = all[p.begin:p.end]
		}
	}
	t.Begin()
}
