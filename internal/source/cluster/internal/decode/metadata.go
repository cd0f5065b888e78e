package decode

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/kube"
)

// Field numbers of metav1.ObjectMeta and metav1.ManagedFieldsEntry that only objects need; the others are those of an identity.
const (
	objectMetaCreated, objectMetaLabels, objectMetaAnnotations, objectMetaManagedFields = 8, 11, 12, 17

	mapKey, mapValue = 1, 2

	managedManager, managedTime, managedSubresource = 1, 4, 8
)

// metaReader reads the metadata of an Ingress. An object can have several messages of it, which are merged.
type metaReader struct {
	created             metav1.Time
	annotations, labels []rawPair
	managed             []managedField
}

// rawPair is an entry of a map.
type rawPair struct{ key, value []byte }

// managedField is what is read of an entry of the managed fields.
type managedField struct {
	at      metav1.Time
	manager []byte
}

func (m *metaReader) decode(t *kube.Texts, v value, meta *kube.Meta) error {
	return v.message(func(field protowire.Number, v value) error {
		switch field {
		case objectMetaName:
			return v.text(t, &meta.Name)
		case objectMetaNamespace:
			return v.shared(t, &meta.Namespace)
		case objectMetaCreated:
			return decodeTime(v, &m.created)
		case objectMetaLabels:
			return decodePair(v, &m.labels)
		case objectMetaAnnotations:
			return decodePair(v, &m.annotations)
		case objectMetaManagedFields:
			return m.decodeManaged(v)
		}
		return nil
	})
}

func decodeTime(v value, at *metav1.Time) error {
	if err := v.want(protowire.BytesType); err != nil {
		return err
	}
	return at.Unmarshal(v.bytes)
}

func decodePair(v value, pairs *[]rawPair) error {
	var p rawPair
	err := v.message(func(field protowire.Number, v value) error {
		switch field {
		case mapKey:
			p.key = v.bytes
		case mapValue:
			p.value = v.bytes
		default:
			return nil
		}
		return v.want(protowire.BytesType)
	})
	if string(p.key) != kube.LastAppliedAnnotation {
		*pairs = append(*pairs, p)
	}
	return err
}

// decodeManaged reads an entry of the managed fields, unless it is about a subresource. One without a time is never the newest.
func (m *metaReader) decodeManaged(v value) error {
	var f managedField
	subresource := false
	err := v.message(func(field protowire.Number, v value) error {
		switch field {
		case managedManager:
			f.manager = v.bytes
			return v.want(protowire.BytesType)
		case managedTime:
			return decodeTime(v, &f.at)
		case managedSubresource:
			subresource = len(v.bytes) > 0
			return v.want(protowire.BytesType)
		}
		return nil
	})
	if !subresource {
		m.managed = append(m.managed, f)
	}
	return err
}

// finish sets what depends on the whole metadata.
func (m *metaReader) finish(t *kube.Texts, meta *kube.Meta) {
	meta.Annotations, meta.Labels = finishPairs(t, m.annotations), finishPairs(t, m.labels)
	if !m.created.IsZero() {
		meta.Created = m.created.Unix()
	}
	t.Set(&meta.Changed, []byte(kube.LastChange(func(yield func(time.Time, string) bool) {
		for i := range m.managed {
			if !yield(m.managed[i].at.Time, string(m.managed[i].manager)) {
				return
			}
		}
	})))
}

// finishPairs sorts the entries. Of several with one key, the last counts.
func finishPairs(t *kube.Texts, raw []rawPair) kube.Pairs {
	slices.SortStableFunc(raw, func(a, b rawPair) int { return bytes.Compare(a.key, b.key) })
	n := 0
	for i, p := range raw {
		if i+1 == len(raw) || !bytes.Equal(p.key, raw[i+1].key) {
			raw[n] = p
			n++
		}
	}
	if n == 0 {
		return nil
	}
	pairs := make(kube.Pairs, n)
	for i, p := range raw[:n] {
		t.Share(&pairs[i].Key, p.key)
		t.Set(&pairs[i].Value, p.value)
	}
	return pairs
}
