package com.acme;

import java.io.IOException;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hudi.common.model.OverwriteWithLatestAvroPayload;
import org.apache.hudi.common.util.Option;

/** Adds up the counts of all writes. */
public class CounterPayload extends OverwriteWithLatestAvroPayload {
  public CounterPayload(GenericRecord record, Comparable ordering) {
    super(record, ordering);
  }

  public CounterPayload(Option<GenericRecord> record) {
    super(record);
  }

  @Override
  public OverwriteWithLatestAvroPayload preCombine(
      OverwriteWithLatestAvroPayload older, Schema schema, Properties properties) {
    try {
      IndexedRecord before = older.getInsertValue(schema).get();
      return new CounterPayload((GenericRecord) combineAndGetUpdateValue(before, schema).get(), getOrderingValue());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Option<IndexedRecord> combineAndGetUpdateValue(IndexedRecord current, Schema schema) throws IOException {
    GenericRecord incoming = new GenericData.Record((GenericData.Record) getInsertValue(schema).get(), true);
    incoming.put("count", (Long) ((GenericRecord) current).get("count") + (Long) incoming.get("count"));
    return Option.of(incoming);
  }
}
